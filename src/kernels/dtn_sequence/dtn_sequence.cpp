// Forward pass of DTN on sequences; see dtn_sequence.h. Each sample is processed alone: first token
// statistics and pivots in one pass over the data, then one tile of tokens after the other. In a
// tile the loop is over heads and over vectors of channels. The window of one vector fits in the
// first-level cache.
#include "kernels/dtn_sequence/dtn_sequence.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_norm_forward.h"
#include "kernels/dtn/dtn_norm_prologue.h"
#include "kernels/dtn_sequence/dtn_sequence_parts.h"

namespace dtn::DTN_ISA {
namespace {

// The valid tokens of one sample.
template <class T, DtnVariant variant>
class LineForward : DtnForwardParts<T, variant> {
  using Parts = DtnForwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::lanes;
  using Parts::input, Parts::output, Parts::head_scale, Parts::make_pivot, Parts::write_tokens;
  using typename Parts::A;

 public:
  LineForward(const DtnNormForward& args, const LineWindow<A>* windows, Scratch::Scope& scope)
      : Parts(args, scope),
        windows_(windows),
        groups_((sizes_.head_dim + lanes - 1) / lanes),
        means_(scope.take<VectorMoments<A>>(sizes_.heads * groups_)) {}

  void run(CpuQueue& queue) {
    this->token_statistics(0, 1);
    base_ = mean_base<variant>(sizes_, input(0));
    parallel_for(sizes_.heads, [&](std::int64_t h) { prepare(queue, h); });
    const std::int64_t tiles = (sizes_.tokens + kLineTile - 1) / kLineTile;
    parallel_for(tiles, [&](std::int64_t i) { normalize_tile(queue, i * kLineTile); });
  }

 private:
  template <class N>
  LineValues<T, variant, N> values(std::int64_t h, std::int64_t channel, N count) const {
    return {input(0) + channel, sizes_.channels, count, head_scale(0, h),
            load_n(this->pivots(0) + channel, count)};
  }

  // Computes the pivots of a head and, for kMean, its moments.
  void prepare(CpuQueue& queue, std::int64_t h) const {
    Scratch::Scope scope(queue.scratch());
    const bool one_mean = windows_[h].kind == LineKind::kMean;
    MeanShares<A> shares;
    if (one_mean) shares = make_mean_shares(windows_[h], sizes_.tokens, scope);
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      make_pivot(0, channel, count, base_);
      if (!one_mean) return;
      means_[h * groups_ + offset / lanes] =
          mean_moments(values(h, channel, count), sizes_.tokens, shares.p);
    });
  }

  void normalize_tile(CpuQueue& queue, std::int64_t first) const {
    Scratch::Scope scope(queue.scratch());
    LinePlanes<A> planes(windows_, sizes_.heads, sizes_.tokens, scope);
    A mixed[kLineTile];
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      Scratch::Scope of_head(queue.scratch());
      LineTiles<A> tiles(windows_[h], sizes_.tokens, false, of_head);
      const LineTile<A>& tile = tiles.make(first, of_head);
      mix_variances(tile.rows, static_cast<const A*>(args_.token_var) + first,
                    static_cast<const A*>(args_.lambda_var)[h], args_.eps, mixed);
      normalize_head(h, tile, planes, mixed);
    }
  }

  void normalize_head(std::int64_t h, const LineTile<A>& tile, LinePlanes<A>& planes,
                      const A* mixed) const {
    const auto ahead = LineAhead::after(windows_, sizes_, h, tile.first);
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const auto of_group = values(h, channel, count);
      ahead.fetch_window(sizes_, input(0), offset / lanes, groups_);
      ahead.fetch(sizes_, output(0), offset / lanes, groups_);
      if (windows_[h].kind == LineKind::kMean) {
        planes.make(tile, means_[h * groups_ + offset / lanes], of_group);
      } else {
        planes.make(tile, sizes_.tokens, of_group);
      }
      write_tokens(0, h, channel, count, base_ - of_group.pivot, tile.first, tile.rows,
                   planes.tokens(tile), planes.m1(), planes.m2(), mixed);
    });
  }

  const LineWindow<A>* windows_;  // [H]
  std::int64_t groups_;           // groups of a head
  VectorMoments<A>* means_;       // [H, groups], for kMean
  A base_ = 0;
};

}  // namespace

void run(CpuQueue& queue, const DtnSequenceForward& line) {
  const DtnNormForward& args = line.norm;
  make_lambdas(queue, args);
  for_dtn_variant("DtnSequenceForward", args, [&]<class T, DtnVariant variant>() {
    Scratch::Scope scope(queue.scratch());
    const auto* windows = make_windows<AccumulatorOf<T>>(args, scope);
    for_each_sample(args, line.lengths, [&](std::int64_t b, std::int64_t n) {
      Scratch::Scope of_sample(queue.scratch());
      DtnNormForward one = sample_of<T>(args, b, n);
      one.y = advanced(args.y, b * one.image_stride * std::int64_t{sizeof(T)});
      clear_pads<T>(one.y, n, args.grid_w, args.channels);
      if (n > 0) LineForward<T, variant>(one, windows, of_sample).run(queue);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnSequenceForward)
