// Backward pass of DTN with full position matrices; see dtn_dense.h. The steps shared with
// separable DTN are explained in dtn_norm_backward.cpp. A task processes one head and a few images
// in turn. So the gradient of the head's matrix, which is as large as the matrix, stays in the
// thread's cache.
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_dense.h"
#include "kernels/dtn/dtn_dense_gradient.h"
#include "kernels/dtn/dtn_dense_parts.h"
#include "kernels/dtn/dtn_norm_backward.h"

namespace dtn::DTN_ISA {
namespace {

template <class T, DtnVariant variant>
class Backward : DtnBackwardParts<T, variant> {
  using Parts = DtnBackwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::image_, Parts::lanes;
  using Parts::finish, Parts::head_scale, Parts::input, Parts::input_gradient, Parts::keep,
      Parts::make_planes, Parts::pivots, Parts::prefetch_row, Parts::row_gradients,
      Parts::sums_of_tokens, Parts::unfinished;
  using typename Parts::A;
  using typename Parts::ChannelSums, typename Parts::LambdaSums, typename Parts::Planes,
      typename Parts::TokenSums;
  using PositionGradient = DensePositionGradient<A>;

 public:
  Backward(const DtnDenseBackward& args, Scratch::Scope& scope)
      : Parts(args.norm, scope),
        positions_(args.positions, sizes_.cells, sizes_.heads, true, scope),
        dpositions_(static_cast<A*>(args.dpositions)) {}

  void run(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    dx_ = unfinished(scope, sizes_.batch);
    sums_ = scope.take<A>(sizes_.batch * this->token_sums());
    const std::int64_t images = images_per_chunk();
    const std::int64_t chunks = (sizes_.batch + images - 1) / images;
    const std::int64_t size = PositionGradient::size(sizes_.cells);
    if (dpositions_) partials_ = scope.take<A>(chunks * positions_.wave() * size);
    positions_.for_each_wave([&](std::int64_t first, std::int64_t count) {
      parallel_for(count * chunks, [&](std::int64_t i) {
        const std::int64_t begin = i % chunks * images, end = begin + images;
        head(queue, first + i / chunks, begin, end < sizes_.batch ? end : sizes_.batch,
             dpositions_ ? partials_ + i * size : nullptr);
      });
      if (dpositions_) add_partials(first, count, chunks);
    });
    if (dx_) finish(queue, 0, sizes_.batch, dx_, sums_);
    this->add_parameter_gradients();
  }

 private:
  // Few enough to keep many threads busy, and enough to fit the partial sums in a memory budget.
  std::int64_t images_per_chunk() const {
    constexpr std::int64_t kBudget = (std::int64_t{256} << 20) / sizeof(A);
    const std::int64_t batch = sizes_.batch, wave = positions_.wave();
    const std::int64_t images = images_per_task(batch, wave);
    if (!dpositions_) return images;
    const std::int64_t most = kBudget / (wave * PositionGradient::size(sizes_.cells));
    const std::int64_t least = most > 0 ? (batch + most - 1) / most : batch;
    return images > least ? images : least;
  }

  // dpositions = the sum over the chunks of images, in order.
  void add_partials(std::int64_t first, std::int64_t heads, std::int64_t chunks) const {
    const std::int64_t n = sizes_.cells, stride = PositionGradient::stride(n);
    const std::int64_t size = PositionGradient::size(n);
    parallel_ranges(heads * n, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const A* from = partials_ + row / n * chunks * size + row % n * stride;
        A* to = dpositions_ + (first * n + row) * n;
        for_each_vector<A>(n, [&](std::int64_t j, auto count) {
          Vec<A> sum{};
          for (std::int64_t k = 0; k < chunks; ++k) sum += load(from + k * size + j);
          store_n(to + j, sum, count);
        });
      }
    });
  }

  // Workspace for cells and for one row of tokens.
  struct PooledPlanes {
    A *averages, *m1, *m2, *dm1, *dm2;  // [T']; dm1, dm2 are used only if pool > 1
    A *row1, *row2;                     // moments of one row of tokens
  };

  // Computes one head of images [begin, end): unfinished dx, token sums, parameter gradients, and
  // in dp the gradient of the head's matrix.
  void head(CpuQueue& queue, std::int64_t h, std::int64_t begin, std::int64_t end, A* dp) const {
    Scratch::Scope scope(queue.scratch());
    const std::int64_t size = sizes_.cells * lanes, row_size = sizes_.grid_w * lanes;
    const PooledPlanes c{scope.take<A>(size),    scope.take<A>(size), scope.take<A>(size),
                         scope.take<A>(size),    scope.take<A>(size), scope.take<A>(row_size),
                         scope.take<A>(row_size)};
    if (!dpositions_) {
      for (std::int64_t b = begin; b < end; ++b) head_of(queue, b, h, c, nullptr);
      return;
    }
    PositionGradient gradient(sizes_.cells, dp, scope);
    for (std::int64_t b = begin; b < end; ++b) head_of(queue, b, h, c, &gradient);
    gradient.flush();
  }

  void head_of(CpuQueue& queue, std::int64_t b, std::int64_t h, const PooledPlanes& c,
               PositionGradient* gradient) const {
    Scratch::Scope scope(queue.scratch());
    const Planes p = make_planes(scope, b, h);
    A* dx = dx_ ? dx_ + b * image_ : nullptr;
    TokenSums token = sums_of_tokens(h, p, sums_ + b * this->token_sums());
    const A base = mean_base<variant>(sizes_, input(b));
    const A share = sizes_.template cell_share<A>();
    LambdaSums sums;
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const NextGroup next(sizes_, b, h, channel + lanes);
      const Vec<A> pivot = load_n(pivots(b) + channel, count);
      gather(sizes_, input(b) + channel, count, head_scale(b, h), pivot, p.x);
      const A* x = sum_pooled(sizes_, p.x, share, c.averages);
      pass<A, Second::kSquare>(sizes_.one_line(), {positions_.apply(h)}, x, nullptr, c.m1, c.m2);
      ChannelSums channels;
      for (std::int64_t row = 0; row < sizes_.grid_h; ++row) {
        if (next.image < sizes_.batch) {
          prefetch_row(next.image, next.channel, row, dx ? dx_ + next.image * image_ : nullptr);
        }
        row_gradients(b, h, channel, count, base - pivot, row,
                      spread_row(sizes_, row, c.m1, c.row1), spread_row(sizes_, row, c.m2, c.row2),
                      p, channels, sums, token);
      }
      keep(b, channel, count, channels);
      const A* dm1 = sum_pooled(sizes_, p.dm1, A(1), c.dm1);
      const A* dm2 = sum_pooled(sizes_, p.dm2, A(1), c.dm2);
      if (gradient) gradient->add(dm1, dm2, x);
      if (!dx) return;
      pass<A, Second::kPlane>(sizes_.one_line(), {positions_.apply_transposed(h)}, dm1, dm2, c.m1,
                              c.m2);
      // Gradient that each token of a cell gets through the cell's mean. m1, m2 hold dZ.
      for (std::int64_t at = 0; at < sizes_.cells * lanes; at += lanes) {
        store(c.m1 + at, share * (load(c.m1 + at) + 2 * load(x + at) * load(c.m2 + at)));
      }
      for (std::int64_t row = 0; row < sizes_.grid_h; ++row) {
        const std::int64_t first = row * sizes_.grid_w;
        const A* through = spread_row(sizes_, row, c.m1, c.row1);
        input_gradient(b, channel, count, first, first + sizes_.grid_w, dx + channel,
                       [&](std::int64_t at) {
                         return load(p.direct + at) + load(through + (at - first * lanes));
                       });
      }
    });
    keep(b, h, sums);
  }

  PackedPositions<A> positions_;
  A* dpositions_;
  A *dx_ = nullptr, *sums_ = nullptr;  // unfinished dx (or null), token sums; of all images
  A* partials_ = nullptr;              // [heads of a wave, chunks, PositionGradient::size]
};

}  // namespace

void run(CpuQueue& queue, const DtnDenseBackward& args) {
  Scratch::Scope scope(queue.scratch());
  for_dtn_variant("DtnDenseBackward", args.norm, [&]<class T, DtnVariant variant>() {
    Backward<T, variant>(args, scope).run(queue);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnDenseBackward)
