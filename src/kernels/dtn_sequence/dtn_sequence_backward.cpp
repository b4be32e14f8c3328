// Backward pass of DTN on sequences; see dtn_sequence.h. Each sample is processed alone. Each head
// goes through the tiles of its tokens: it recomputes the moments, then computes their gradients
// and the part of dx that does not go through the moments. A second loop follows some rows behind
// and passes the gradients through the windows to the tokens (dtn_sequence_back.h). The last step
// adds the two terms that sum over all channels of a token.
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_norm_backward.h"
#include "kernels/dtn_sequence/dtn_sequence_back.h"

namespace dtn::DTN_ISA {
namespace {

// The gradients of a_x and a_d of one head of one sample.
template <class A>
struct LinePositions {
  A offset, square;
};

// The valid tokens of one sample.
template <class T, DtnVariant variant>
class LineBackward : DtnBackwardParts<T, variant> {
  using Parts = DtnBackwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::image_, Parts::lanes, Parts::kInPlace;
  using Parts::finish, Parts::head_scale, Parts::input, Parts::input_gradient, Parts::keep,
      Parts::output_gradient, Parts::tokens_gradients, Parts::unfinished;
  using typename Parts::ChannelSums, typename Parts::LambdaSums, typename Parts::Planes,
      typename Parts::TokenSums;

 public:
  using typename Parts::A, typename Parts::HeadSums;

  // Writes the sums over the tokens to head_sums [H], channel_sums [2, C] and positions [H].
  LineBackward(const DtnNormBackward& args, const LineWindow<A>* windows, HeadSums* head_sums,
               A* channel_sums, LinePositions<A>* positions, Scratch::Scope& scope)
      : Parts(args, scope),
        windows_(windows),
        positions_(positions),
        n_(sizes_.tokens),
        groups_((sizes_.head_dim + lanes - 1) / lanes),
        base_(mean_base<variant>(sizes_, input(0))) {
    this->head_sums_ = head_sums;
    this->channel_sums_ = channel_sums;
    dx_ = unfinished(scope, 1);
    token_sums_ = scope.take<A>(this->token_sums());
  }

  // side_by_side: true if other samples keep the other threads busy. Then all heads process a tile
  // while it is in cache, before the next tile.
  void run(CpuQueue& queue, bool side_by_side) {
    if (side_by_side) {
      run_tiles(queue);
    } else {
      parallel_for(sizes_.heads, [&](std::int64_t h) {
        Scratch::Scope scope(queue.scratch());
        Head head(*this, h, scope);
        Workspace workspace(*this, scope);
        for (std::int64_t first = 0; first < n_; first += kLineTile) {
          walk(queue, head, first, LineAhead::of_head(windows_, sizes_, h, first + kLineTile),
               workspace);
        }
        end(head);
      });
      if (dx_) finish(queue, 0, 1, dx_, token_sums_);
    }
  }

 private:
  // State of one head during the loop over the tiles.
  struct Head {
    LambdaSums lambda{};
    PositionSums<A> shared, own;  // of the table, relative to its middle; of own rows and kMean
    std::int64_t h;
    std::int64_t done = 0;             // tokens whose gradients are completed
    ChannelSums* channels;             // [groups]
    MeanGradient<A>* means = nullptr;  // [groups]
    OwnKeys<A> keys;
    TapWeights<A> taps;
    MeanShares<A> shares;  // for kMean
    LineTail<A> tail;
    LineTiles<A> tiles;

    Head(const LineBackward& of, std::int64_t head, Scratch::Scope& scope)
        : h(head),
          channels(scope.take<ChannelSums>(of.groups_)),
          keys(of.windows_[h], of.n_, of.groups_, scope),
          tail(of.windows_[h], of.n_, of.groups_, scope),
          tiles(of.windows_[h], of.n_, of.args_.dpos_weight, scope) {
      std::fill_n(channels, of.groups_, ChannelSums{});
      if (tail.any() && of.args_.dpos_weight) taps = TapWeights<A>(window(), of.n_, scope);
      if (window().kind != LineKind::kMean) return;
      shares = make_mean_shares(window(), of.n_, scope);
      means = scope.take<MeanGradient<A>>(of.groups_);
      of.each_group(h, [&](std::int64_t g, std::int64_t, const auto& values) {
        means[g] = {mean_moments(values, of.n_, shares.p), {}, {}};
      });
    }
    const LineWindow<A>& window() const { return tiles.window(); }
  };

  // Workspace for one tile of one vector of channels.
  struct Workspace {
    LinePlanes<A> planes;
    A *dm1 = nullptr, *dm2 = nullptr, *direct = nullptr, *mixed = nullptr;
    A *late = nullptr, *out1 = nullptr, *out2 = nullptr;  // for tokens that are being completed
    A* tail = nullptr;                                    // [3, tail_rows], see LineTail
    std::int64_t tail_rows = 0;
    A *keys1 = nullptr, *keys2 = nullptr;  // P^T dm of own rows, one vector per column

    Workspace(const LineBackward& of, Scratch::Scope& scope)
        : planes(of.windows_, of.sizes_.heads, of.n_, scope) {
      for (A** p : {&dm1, &dm2, &direct, &late, &out1, &out2}) {
        *p = LinePlanes<A>::plane(scope, kLineTile + kLineSlack);
      }
      for (std::int64_t h = 0; h < of.sizes_.heads; ++h) {
        tail_rows = std::max(tail_rows, TailReach<A>(of.windows_[h], of.n_).rows());
      }
      tail = LineTail<A>::planes(tail_rows, scope);
      for (A** p : {&keys1, &keys2}) *p = LinePlanes<A>::plane(scope, planes.own_rows());
      mixed = scope.take<A>(kLineTile);
    }
  };

  // Calls f(g, channel, values) for the groups of a head.
  template <class F>
  void each_group(std::int64_t h, F&& f) const {
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const LineValues<T, variant, decltype(count)> values{
          input(0) + channel, sizes_.channels, count, head_scale(0, h),
          load_n(this->pivots(0) + channel, count)};
      f(offset / lanes, channel, values);
    });
  }

  void run_tiles(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    auto* heads = scope.take<Head>(sizes_.heads);
    for (std::int64_t h = 0; h < sizes_.heads; ++h) new (heads + h) Head(*this, h, scope);
    Workspace workspace(*this, scope);
    std::int64_t finished = 0, shift = 0;
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      shift = std::max(shift, LineAhead::shift_of(windows_[h]));
    }
    for (std::int64_t first = 0; first < n_; first += kLineTile) {
      std::int64_t done = n_;
      for (std::int64_t h = 0; h < sizes_.heads; ++h) {
        walk(queue, heads[h], first, LineAhead::of_tile(sizes_, h, first + kLineTile, shift),
             workspace);
        done = std::min(done, heads[h].done);
      }
      if (dx_ && finished < done) finish(queue, 0, finished, done, dx_, token_sums_);
      finished = done;
    }
    for (std::int64_t h = 0; h < sizes_.heads; ++h) end(heads[h]);
  }

  // Processes the tile at `first`, and completes the tokens that no later row reads.
  void walk(CpuQueue& queue, Head& head, std::int64_t first, const LineAhead& ahead,
            Workspace& workspace) const {
    Scratch::Scope scope(queue.scratch());
    const LineTile<A>& tile = head.tiles.make(first, scope);
    mix_variances(tile.rows, static_cast<const A*>(args_.token_var) + first,
                  static_cast<const A*>(args_.lambda_var)[head.h], args_.eps, workspace.mixed);
    LineTail<A>& tail = head.tail;
    tail.work_in(workspace.tail, workspace.tail_rows);
    A* direct = tail.any() ? tail.at(LineTail<A>::kDirect, first) : workspace.direct;
    TokenSums tokens = sums_of_tile(head.h, first, direct);
    const std::int64_t end = first + tile.rows, done = this->done(head, end);
    each_group(head.h, [&](std::int64_t g, std::int64_t channel, const auto& values) {
      ahead.fetch_window(sizes_, input(0), g, groups_);
      if (head.means) {
        workspace.planes.make(tile, head.means[g].mean, values);
      } else {
        workspace.planes.make(tile, n_, values);
      }
      ahead.fetch(sizes_, output_gradient(0), g, groups_);
      // If rows need no scale, their gradients are written directly to the planes of the tail.
      if (tail.any()) tail.bring(g);
      A* dm1 = tile.whole ? tail.at(0, first) : workspace.dm1;
      A* dm2 = tile.whole ? tail.at(1, first) : workspace.dm2;
      const Planes p{workspace.planes.tokens(tile), dm1, dm2, direct, workspace.mixed};
      tokens_gradients(0, head.h, channel, values.count, base_ - values.pivot, first, tile.rows, 0,
                       workspace.planes.m1(), workspace.planes.m2(), p, head.channels[g],
                       head.lambda, tokens);
      tokens.finish(tile.rows);
      fetch_written(ahead, g);
      if (dx_ && !tail.any()) {
        input_gradient(0, channel, values.count, first, end, dx_ + channel,
                       [&](std::int64_t at) { return load(direct + (at - first * lanes)); });
      }
      back_to_windows(head, g, tile, workspace);
      if (tail.any() && end == n_) tail.close();
      if (dx_) end_tokens(head, g, channel, values, tile, done, workspace);
      if (tail.any() && end < n_) tail.keep(g, done, end);
    });
    if (tail.any()) tail.move_on(done, end);
    head.done = done;
  }

  TokenSums sums_of_tile(std::int64_t h, std::int64_t first, const A* direct) const {
    A* by_mean = token_sums_ + h * sizes_.padded_tokens + first;
    A* by_var = by_mean + sizes_.heads * sizes_.padded_tokens;
    const std::int64_t size = std::min(kLineTile, sizes_.padded_tokens - first);
    std::fill_n(by_mean, size, A(0));
    std::fill_n(by_var, size, A(0));
    return {direct, -static_cast<const A*>(args_.lambda_mean)[h],
            A(-0.5) * static_cast<const A*>(args_.lambda_var)[h], by_mean, by_var};
  }

  // Prefetches the dx that is written next, and the dx_add for it, during group g.
  [[gnu::always_inline]] void fetch_written(const LineAhead& ahead, std::int64_t g) const {
    if (kInPlace && dx_) ahead.fetch(sizes_, dx_, g, groups_);
    if (kInPlace && args_.dx_add) ahead.fetch(sizes_, this->residual_gradient(0), g, groups_);
  }

  // Passes the gradients of a tile's moments (one group) on to the keys and to the position
  // weights.
  void back_to_windows(Head& head, std::int64_t g, const LineTile<A>& tile,
                       const Workspace& workspace) const {
    if (head.means) {
      head.means[g].add(tile.first - head.shares.middle, tile.rows, workspace.dm1, workspace.dm2);
      return;
    }
    if (head.tail.any()) {
      head.tail.clear_rows(tile.first, tile.inner_begin);
      head.tail.clear_rows(tile.inner_end, tile.first + tile.rows);
    }
    if (tile.inner()) back_to_table(head, tile, workspace);
    if (tile.own.any()) back_to_own(head, g, tile, workspace);
  }

  void back_to_table(Head& head, const LineTile<A>& tile, const Workspace& workspace) const {
    const TapWeights<A>& taps = head.taps;
    A *tail1 = head.tail.at(0, tile.inner_begin), *tail2 = head.tail.at(1, tile.inner_begin);
    if (!tile.whole) scale_rows(head, tile, workspace, tail1, tail2);
    if (!args_.dpos_weight) return;
    const std::int64_t skipped = tile.table - head.window().table;
    slide_gradient<A>(tile.inner_end - tile.inner_begin, tile.taps, tail1, tail2,
                      workspace.planes.window1(), workspace.planes.window2(),
                      taps.by_offset + skipped, taps.by_square + skipped, head.shared);
  }

  // Multiplies the gradients of inner rows by their scales. Corrects the position sums for rows
  // whose means differ from those of TapWeights.
  void scale_rows(Head& head, const LineTile<A>& tile, const Workspace& workspace, A* tail1,
                  A* tail2) const {
    const A *dm1 = workspace.dm1, *dm2 = workspace.dm2, *m1 = workspace.planes.m1(),
            *m2 = workspace.planes.m2();
    PositionSums<A> corrections;
    for (std::int64_t k = tile.inner_begin - tile.first; k < tile.inner_end - tile.first; ++k) {
      const std::int64_t at = k * lanes;
      const Vec<A> d1 = load(dm1 + at), d2 = load(dm2 + at);
      store(tail1, d1 * tile.scale[k]);
      store(tail2, d2 * tile.scale[k]);
      const Vec<A> dot = d1 * load(m1 + at) + d2 * load(m2 + at);
      corrections.offset += dot * (head.taps.mean - tile.mean[k]);
      corrections.square += dot * (head.taps.mean_square - tile.mean_square[k]);
      tail1 += lanes;
      tail2 += lanes;
    }
    if (args_.dpos_weight) head.shared += corrections;
  }

  void back_to_own(Head& head, std::int64_t g, const LineTile<A>& tile,
                   const Workspace& workspace) const {
    PositionSums<A> positions;
    for (std::int64_t i = tile.own.begin; i < tile.own.end; i += kRowPart) {
      const std::int64_t end = std::min(i + kRowPart, tile.own.end);
      own_rows_back(tile, i, end, workspace, positions);
      add_to_keys(head, g, tile.own, workspace);
    }
    head.own += positions;
  }

  void own_rows_back(const LineTile<A>& tile, std::int64_t begin, std::int64_t end,
                     const Workspace& workspace, PositionSums<A>& positions) const {
    const OwnRows<A>& own = tile.own;
    for (A* keys : {workspace.keys1, workspace.keys2}) std::fill_n(keys, own.columns * lanes, A(0));
    for_each_group<kOwnBlock>(0, end - begin, [&](std::int64_t i, auto rows) {
      const std::int64_t at = (begin - tile.first + i) * lanes;
      const std::int64_t row = (begin - own.begin + i) * own.stride;
      const A *dm1 = workspace.dm1 + at, *dm2 = workspace.dm2 + at;
      own_block_back<A, rows>(own.columns, own.stride, own.p + row, dm1, dm2, workspace.keys1,
                              workspace.keys2);
      if (!args_.dpos_weight) return;
      own_block_gradient<A, rows>(own.columns, own.stride, own.by_offset + row, own.by_square + row,
                                  dm1, dm2, workspace.planes.own1(), workspace.planes.own2(),
                                  positions);
    });
  }

  void add_to_keys(Head& head, std::int64_t g, const OwnRows<A>& own,
                   const Workspace& workspace) const {
    for (std::int64_t k = 0; k < own.columns; ++k) {
      A *to1 = head.keys.at(g, 0, own.column(k)), *to2 = head.keys.at(g, 1, own.column(k));
      store(to1, load(to1) + load(workspace.keys1 + k * lanes));
      store(to2, load(to2) + load(workspace.keys2 + k * lanes));
    }
  }

  // Number of tokens of a head that can be completed when rows before `end` are computed.
  std::int64_t done(const Head& head, std::int64_t end) const {
    if (end == n_) return n_;
    if (!head.tail.any()) return 0;
    std::int64_t done = head.tail.done(end);
    const OwnKeys<A>& keys = head.keys;
    // Own rows come first or last. If they come last, the keys that they read wait for them.
    if (keys.begin() < keys.end() && head.window().middle > 0) done = std::min(done, keys.begin());
    return std::max(done, head.done);
  }

  // Adds the gradient through the moments to dx, for one group and the tokens before `done`.
  template <class Values>
  void end_tokens(const Head& head, std::int64_t g, std::int64_t channel, Values values,
                  const LineTile<A>& tile, std::int64_t done, const Workspace& workspace) const {
    for (std::int64_t begin = head.done; begin < done; begin += kLineTile) {
      const std::int64_t end = std::min(begin + kLineTile, done), channels = sizes_.channels;
      to_keys(head, g, begin, end, workspace);
      const A* x = workspace.planes.window(tile, begin, end);
      if (!x) gather_line(values, begin, end, workspace.late);
      if (!x) x = workspace.late;
      const A *out1 = workspace.out1, *out2 = workspace.out2;
      auto through = [=](std::int64_t at) {
        return load(out1 + at) + 2 * load(x + at) * load(out2 + at);
      };
      if (head.tail.any()) {
        const A* direct = head.tail.at(LineTail<A>::kDirect, begin);
        input_gradient(0, channel, values.count, begin, end, dx_ + channel, [=](std::int64_t at) {
          at -= begin * lanes;
          return load(direct + at) + through(at);
        });
        continue;
      }
      A* dx = dx_ + begin * channels + channel;
      for (std::int64_t at = 0; at < (end - begin) * lanes; at += lanes, dx += channels) {
        store_n(dx, load_n(dx, values.count) + through(at), values.count);
      }
    }
  }

  // Computes P^T dm of tokens [begin, end) of one group.
  void to_keys(const Head& head, std::int64_t g, std::int64_t begin, std::int64_t end,
               const Workspace& workspace) const {
    if (head.means) {
      const VectorMoments<A>& sum = head.means[g].sum;
      for (std::int64_t j = begin; j < end; ++j) {
        store(workspace.out1 + (j - begin) * lanes, sum.first * head.shares.p[j]);
        store(workspace.out2 + (j - begin) * lanes, sum.second * head.shares.p[j]);
      }
      return;
    }
    if (head.tail.any()) {
      head.tail.apply(begin, end, workspace.out1, workspace.out2);
    } else {
      std::fill_n(workspace.out1, (end - begin) * lanes, A(0));
      std::fill_n(workspace.out2, (end - begin) * lanes, A(0));
    }
    const std::int64_t first = std::max(begin, head.keys.begin());
    for (std::int64_t j = first; j < std::min(end, head.keys.end()); ++j) {
      A *out1 = workspace.out1 + (j - begin) * lanes, *out2 = workspace.out2 + (j - begin) * lanes;
      store(out1, load(out1) + load(head.keys.at(g, 0, j)));
      store(out2, load(out2) + load(head.keys.at(g, 1, j)));
    }
  }

  // Stores the sums of a head after its last tile.
  void end(Head& head) const {
    each_group(head.h, [&](std::int64_t g, std::int64_t channel, const auto& values) {
      keep(0, channel, values.count, head.channels[g]);
      if (head.means && args_.dpos_weight) {
        head.means[g].add_positions(values, n_, head.shares, head.own);
      }
    });
    keep(0, head.h, head.lambda);
    // With t = d - middle, d^2 = t^2 + 2 middle t + middle^2.
    const A twice = 2 * static_cast<A>(head.window().middle);
    positions_[head.h] = {
        reduce_add(head.shared.offset) + reduce_add(head.own.offset),
        reduce_add(head.shared.square + twice * head.shared.offset) + reduce_add(head.own.square)};
  }

  const LineWindow<A>* windows_;  // [H]
  LinePositions<A>* positions_;   // [H]
  std::int64_t n_, groups_;       // tokens; groups of a head
  A base_;
  A *dx_, *token_sums_;
};

// Backward pass of all samples. Parameter gradients are added sample by sample, in order.
template <class T, DtnVariant variant>
class LinesBackward : DtnBackwardParts<T, variant> {
  using Parts = DtnBackwardParts<T, variant>;
  using Sample = LineBackward<T, variant>;
  using typename Parts::A;

 public:
  LinesBackward(const DtnSequenceBackward& line, Scratch::Scope& scope)
      : Parts(line.norm, scope),
        lengths_(line.lengths),
        windows_(make_windows<A>(line.norm, scope)),
        positions_(scope.take<LinePositions<A>>(line.norm.batch * line.norm.heads)) {}

  void run(CpuQueue& queue) {
    const DtnNormBackward& args = this->args_;
    const bool side_by_side = this->sizes_.image_per_task();
    for_each_sample(args, lengths_,
                    [&](std::int64_t b, std::int64_t n) { run_sample(queue, b, n, side_by_side); });
    this->add_parameter_gradients();
    if (!args.dpos_weight) return;
    const A sign = variant == DtnVariant::kOfficial ? A(-1) : A(1);
    for (std::int64_t i = 0; i < args.batch * args.heads; ++i) {  // sample by sample
      A* out = static_cast<A*>(args.dpos_weight) + i % args.heads * 3;
      out[0] += sign * positions_[i].offset;
      out[2] += positions_[i].square;
    }
  }

 private:
  void run_sample(CpuQueue& queue, std::int64_t b, std::int64_t n, bool side_by_side) {
    const DtnNormBackward& args = this->args_;
    typename Sample::HeadSums* head_sums = this->head_sums_ + b * args.heads;
    A* channel_sums = this->channel_sums_ + b * 2 * args.channels;
    LinePositions<A>* positions = positions_ + b * args.heads;
    const std::int64_t at = b * this->image_ * std::int64_t{sizeof(T)};
    if (args.dx) clear_pads<T>(advanced(args.dx, at), n, args.grid_w, args.channels);
    if (n == 0) {
      std::fill_n(head_sums, args.heads, typename Sample::HeadSums{});
      std::fill_n(channel_sums, 2 * args.channels, A(0));
      std::fill_n(positions, args.heads, LinePositions<A>{});
      return;
    }
    Scratch::Scope scope(queue.scratch());
    DtnNormBackward one = sample_of<T>(args, b, n);
    one.dy = advanced(args.dy, at);
    one.dx_add = advanced(args.dx_add, at);
    one.dx = advanced(args.dx, at);
    Sample(one, windows_, head_sums, channel_sums, positions, scope).run(queue, side_by_side);
    // With one token P is 1 for any position weights: their gradient is 0 up to rounding.
    if (n == 1) std::fill_n(positions, args.heads, LinePositions<A>{});
  }

  const std::int64_t* lengths_;
  const LineWindow<A>* windows_;
  LinePositions<A>* positions_;  // [B, H]
};

}  // namespace

void run(CpuQueue& queue, const DtnSequenceBackward& args) {
  Scratch::Scope scope(queue.scratch());
  for_dtn_variant("DtnSequenceBackward", args.norm, [&]<class T, DtnVariant variant>() {
    LinesBackward<T, variant>(args, scope).run(queue);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnSequenceBackward)
