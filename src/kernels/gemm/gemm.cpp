#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <atomic>

#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "kernels/gemm/gemm_eigen.h"
#include "kernels/gemm/gemm_onednn.h"
#include "kernels/gemm/gemm_onednn_rows.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/tile_ops.h"

namespace dtn {
namespace {

std::atomic<bool> eigen_forced{false};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool uses_onednn(DType dtype) {
  return !eigen_forced.load(std::memory_order_relaxed) && dtype != DType::kFloat64 &&
         onednn::supports(DType::kFloat32);
}
// Returns the type in which factors of this type are multiplied. Bfloat16 becomes float32 if the
// machine has no fast instructions for it.
DType multiplied_type(DType dtype) {
  if (dtype != DType::kBFloat16) return dtype;
  return uses_onednn(dtype) && onednn::supports(dtype) ? dtype : DType::kFloat32;
}

// Block size of the rows of a oneDNN tile.
std::int64_t row_block(DType dtype) {
  return uses_onednn(dtype) ? onednn::row_block(multiplied_type(dtype)) : 1;
}

// Outside a parallel region a library would start threads, and the result would depend on their
// number. Limits the library to one thread.
class OneThread {
 public:
  OneThread() : saved_(omp_get_max_threads()) {
    if (saved_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (saved_ != 1) omp_set_num_threads(saved_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_;
};

void multiply_native(CpuQueue& queue, const GemmTile& t) {
  OneThread guard;
  uses_onednn(t.dtype) ? onednn::multiply_rows(queue, t) : eigen::multiply(t);
}

// Replaces op(A) by a float32 copy that is not transposed: oneDNN's kernels for a transposed A take
// a quarter to a third longer.
void copy_a(CpuQueue& queue, Scratch::Scope& scope, GemmTile& t) {
  float* copy = scope.take<float>(t.m * t.k);
  if (t.transpose_a) {
    run(queue, TransposeTile{t.dtype, t.k, t.m, t.a, t.lda, copy, t.k});
  } else {
    run(queue, ConvertTile{t.dtype, DType::kFloat32, t.m, t.k, t.a, t.lda, copy, t.k});
  }
  t.a = copy;
  t.lda = t.k;
  t.transpose_a = false;
}

// Replaces B by a float32 copy.
void copy_b(CpuQueue& queue, Scratch::Scope& scope, GemmTile& t) {
  const std::int64_t rows = t.transpose_b ? t.n : t.k, cols = t.transpose_b ? t.k : t.n;
  float* copy = scope.take<float>(rows * cols);
  run(queue, ConvertTile{t.dtype, DType::kFloat32, rows, cols, t.b, t.ldb, copy, cols});
  t.b = copy;
  t.ldb = cols;
}

// Multiplies bfloat16 tiles in float32. A packed B is float32 already.
void multiply_widened(CpuQueue& queue, const GemmTile& t) {
  Scratch::Scope scope(queue.scratch());
  GemmTile f = t;
  copy_a(queue, scope, f);
  if (!t.packed_b) copy_b(queue, scope, f);
  f.dtype = f.c_dtype = DType::kFloat32;
  if (t.c_dtype == DType::kFloat32) return multiply_native(queue, f);
  f.c = scope.take<float>(t.m * t.n);
  f.ldc = t.n;
  f.accumulate = false;
  multiply_native(queue, f);
  run(queue,
      ConvertTile{DType::kFloat32, DType::kBFloat16, t.m, t.n, f.c, t.n, t.c, t.ldc, t.accumulate});
}

void multiply(CpuQueue& queue, const GemmTile& t) {
  if (multiplied_type(t.dtype) != t.dtype) return multiply_widened(queue, t);
  if (!t.transpose_a || t.dtype != DType::kFloat32 || !uses_onednn(t.dtype)) {
    return multiply_native(queue, t);
  }
  Scratch::Scope scope(queue.scratch());
  GemmTile turned = t;
  copy_a(queue, scope, turned);
  multiply_native(queue, turned);
}

// Division of a product into tiles; fixed by its shape alone.
struct Plan {
  std::int64_t tile_m, tile_n, tiles_m, tiles_n;
  std::int64_t groups;   // independent partial sums over k
  std::int64_t group_k;  // length of each group except the last
  std::int64_t chunk_k;  // part of a group in one library call
};

// Returns the size of nearly equal parts of n: at most `most`, rounded up to a multiple of `unit`.
std::int64_t even_part(std::int64_t n, std::int64_t most, std::int64_t unit) {
  std::int64_t parts = ceil_div(n, most);
  return ceil_div(ceil_div(n, parts), unit) * unit;
}

// Returns the rows of a tile, about 128, such that 2 or 4 threads finish together.
std::int64_t even_rows(std::int64_t rows, std::int64_t block) {
  constexpr std::int64_t kRows = 128;
  std::int64_t tiles = ceil_div(rows, kRows);
  if (tiles > 4) tiles = ceil_div(tiles, 4) * 4;
  const std::int64_t unit = std::max<std::int64_t>(4, block);
  std::int64_t best = ceil_div(ceil_div(rows, tiles), unit) * unit;
  if (block == 1 || tiles <= 4) return best;
  // Large blocks leave a remainder. Takes the size with the least work for the slowest thread.
  std::int64_t least = 0;
  for (std::int64_t tile = 96; tile <= 144; tile += block) {
    const std::int64_t count = ceil_div(rows, tile);
    const std::int64_t time = (ceil_div(count, 2) * 2 + ceil_div(count, 4) * 4) * tile;
    if (least > 0 && time > least) continue;
    least = time;
    best = tile;
  }
  return best;
}

Plan make_plan(const Gemm& g, bool has_epilogue) {
  // With tiles of this size, all that a tile reads and writes fits a 1 MiB L2 cache. Fewer than
  // kEnoughTiles would leave threads idle; then k is split too.
  constexpr std::int64_t kEnoughTiles = 12, kMinGroup = 512;
  Plan p;
  if (g.transpose_a) {
    p.tile_m = even_part(g.m, 216, std::max<std::int64_t>(8, row_block(g.dtype)));
  } else {
    p.tile_m = even_rows(g.m, row_block(g.dtype));
  }
  p.tiles_m = ceil_div(g.m, p.tile_m);
  // oneDNN writes a dense tile as wide as C in place, and then iterates over the columns itself.
  bool in_place = !has_epilogue && !g.transpose_a && g.ldc == g.n && g.n <= 2048 && p.tiles_m >= 16;
  p.tile_n = in_place ? g.n : even_part(g.n, g.transpose_a ? 256 : 448, 16);
  p.tiles_n = ceil_div(g.n, p.tile_n);
  std::int64_t tiles = p.tiles_m * p.tiles_n * g.batch;
  p.groups = 1;
  bool wide_c = g.c_dtype == accumulator_of(g.dtype);
  if (wide_c && g.batch == 1 && !has_epilogue && g.k >= 2 * kMinGroup) {
    p.groups = std::min(ceil_div(kEnoughTiles, tiles), g.k / kMinGroup);
  }
  p.group_k = even_part(g.k, ceil_div(g.k, p.groups), 16);
  p.groups = ceil_div(g.k, p.group_k);
  // A transposed factor is read along its long stride; short pieces stay in cache.
  p.chunk_k = g.transpose_a && wide_c ? even_part(p.group_k, 400, 16) : p.group_k;
  return p;
}

// State of one product during its computation.
struct Job {
  const Gemm& g;
  const GatherPart* gather_a;  // may be null
  const GatherPart* gather_b;  // may be null
  Plan plan;
  DType accumulator;
  const TileEpilogue* epilogue;
  void* partials = nullptr;               // [groups - 1, m, n]; group 0 is written to C
  void* sum_partials = nullptr;           // [groups - 1, m], the same for a_sums
  const onednn::Panel* panels = nullptr;  // [tiles_n], or null: B is used without packing
};

GemmTile column_of_b(const Gemm& g, const Plan& plan, std::int64_t j) {
  GemmTile t{};
  t.dtype = g.dtype;
  t.k = g.k;
  t.n = std::min(plan.tile_n, g.n - j * plan.tile_n);
  t.ldb = g.ldb;
  t.transpose_b = g.transpose_b;
  t.b = at_element(g.b, g.dtype, j * plan.tile_n * (g.transpose_b ? g.ldb : 1));
  return t;
}

// Packs op(B) into column panels in oneDNN's layout, which pays if several tiles share a panel. The
// fast oneDNN kernels need the other two matrices dense. Returns null if B is not packed.
const onednn::Panel* pack_b(CpuQueue& queue, Scratch::Scope& scope, const Job& job) {
  const Gemm& g = job.g;
  const Plan& plan = job.plan;
  const bool widens = multiplied_type(g.dtype) != g.dtype;  // which makes A dense
  if (g.transpose_a || (g.lda != g.k && !job.gather_a && !widens) || g.batch > 1) return nullptr;
  if (job.gather_b || !uses_onednn(g.dtype)) return nullptr;
  if (plan.tiles_m < 2 || plan.groups > 1) return nullptr;
  const auto column = [&](std::int64_t j) {
    GemmTile t = column_of_b(g, plan, j);
    t.dtype = multiplied_type(g.dtype);
    return t;
  };
  auto* panels = scope.take<onednn::Panel>(plan.tiles_n);
  {
    OneThread guard;
    for (std::int64_t j = 0; j < plan.tiles_n; ++j) {
      panels[j] = onednn::plan_panel(column(j), static_cast<int>(j));
      onednn::bind_panel(panels[j], scope.take<char>(static_cast<std::int64_t>(panels[j].bytes)));
    }
  }
  parallel_for(plan.tiles_n, [&](std::int64_t j) {
    OneThread guard;
    Scratch::Scope room(queue.scratch());
    GemmTile t = column_of_b(g, plan, j);
    if (widens) copy_b(queue, room, t);
    t.dtype = multiplied_type(g.dtype);
    onednn::pack_panel(queue, t, panels[j]);
  });
  return panels;
}

// Computes tile (i, j) of product `batch`, summed over group `group` of k.
void compute_tile(CpuQueue& queue, const Job& job, std::int64_t batch, std::int64_t group,
                  std::int64_t i, std::int64_t j) {
  const Gemm& g = job.g;
  const Plan& plan = job.plan;
  bool partial = group > 0;
  std::int64_t row = i * plan.tile_m, col = j * plan.tile_n;
  Scratch::Scope scope(queue.scratch());

  GemmTile t = column_of_b(g, plan, j);
  t.m = std::min(plan.tile_m, g.m - row);
  t.lda = g.lda;
  t.transpose_a = g.transpose_a;
  if (job.panels) t.packed_b = job.panels[j].handle;
  const void* a = at_element(g.a, g.dtype, batch * g.stride_a + row * (g.transpose_a ? 1 : g.lda));
  const void* b = at_element(t.b, g.dtype, batch * g.stride_b);
  void* c = at_element(g.c, g.c_dtype, batch * g.stride_c + row * g.ldc + col);
  bool in_scratch = job.epilogue || (job.panels && g.ldc != t.n);
  if (in_scratch) {
    t.c_dtype = job.accumulator;
    t.ldc = t.n;
    t.c = scope.take<char>(t.m * t.n * static_cast<std::int64_t>(size_of(t.c_dtype)));
  } else if (partial) {
    t.c_dtype = job.accumulator;
    t.ldc = g.n;
    t.c = at_element(job.partials, t.c_dtype, ((group - 1) * g.m + row) * g.n + col);
  } else {
    t.c_dtype = g.c_dtype;
    t.ldc = g.ldc;
    t.c = c;
  }
  void* sums = nullptr;
  if (g.a_sums && j == 0) {
    sums = partial ? at_element(job.sum_partials, job.accumulator, (group - 1) * g.m + row)
                   : at_element(g.a_sums, job.accumulator, row);
  }

  std::int64_t begin = group * plan.group_k, end = std::min(g.k, begin + plan.group_k);
  auto room_for = [&](std::int64_t count) {
    return scope.take<char>(count * static_cast<std::int64_t>(size_of(g.dtype)));
  };
  void* part_a = job.gather_a ? room_for(t.m * plan.chunk_k) : nullptr;
  void* part_b = job.gather_b ? room_for(plan.chunk_k * t.n) : nullptr;
  for (std::int64_t k = begin; k < end; k += plan.chunk_k) {
    t.k = std::min(plan.chunk_k, end - k);
    if (job.gather_a) {
      (*job.gather_a)(row, t.m, k, t.k, part_a);
      t.a = part_a;
      t.lda = t.k;
    } else {
      t.a = at_element(a, g.dtype, k * (g.transpose_a ? g.lda : 1));
    }
    if (job.gather_b) {
      (*job.gather_b)(k, t.k, col, t.n, part_b);
      t.b = part_b;
      t.ldb = t.n;
    } else {
      t.b = at_element(b, g.dtype, k * (g.transpose_b ? 1 : g.ldb));
    }
    t.accumulate = k > begin || (g.accumulate && t.c == c);
    multiply(queue, t);
    if (sums) run(queue, ColumnSums{g.dtype, t.k, t.m, t.a, g.lda, sums});
  }
  if (job.epilogue) {
    (*job.epilogue)(queue, {row, col, t.m, t.n, t.c, t.ldc});
  } else if (in_scratch) {
    run(queue, ConvertTile{t.c_dtype, g.c_dtype, t.m, t.n, t.c, t.ldc, c, g.ldc, g.accumulate});
  }
}

// Adds the partial sums over k to C, in order.
void add_groups(CpuQueue& queue, const Job& job) {
  const Gemm& g = job.g;
  parallel_ranges(g.m, 32, [&](std::int64_t begin, std::int64_t end) {
    run(queue, SumPartials{job.accumulator, job.plan.groups - 1, end - begin, g.n,
                           at_element(job.partials, job.accumulator, begin * g.n), g.m * g.n, g.n,
                           at_element(g.c, job.accumulator, begin * g.ldc), g.ldc});
  });
  if (!g.a_sums) return;
  run(queue, SumPartials{job.accumulator, job.plan.groups - 1, 1, g.m, job.sum_partials, g.m, g.m,
                         g.a_sums, g.m});
}

void check_gemm(const Gemm& g, bool has_epilogue) {
  DTN_CHECK(g.dtype == DType::kFloat32 || g.dtype == DType::kBFloat16 || g.dtype == DType::kFloat64,
            "cannot multiply matrices of ", name_of(g.dtype),
            "; cast to a floating-point type first");
  DTN_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0 && g.batch >= 0, "negative size in a product of [",
            g.m, ", ", g.k, "] and [", g.k, ", ", g.n, "]");
  DTN_CHECK(g.lda >= (g.transpose_a ? g.m : g.k) && g.ldb >= (g.transpose_b ? g.k : g.n),
            "a row stride is shorter than the row: lda ", g.lda, ", ldb ", g.ldb);
  DTN_CHECK(!g.a_sums || (g.transpose_a && g.batch == 1), "a_sums needs transpose_a and batch 1");
  if (has_epilogue) {
    DTN_CHECK(g.batch == 1 && !g.accumulate && !g.a_sums, "an epilogue needs a single product");
    return;
  }
  DTN_CHECK(g.c_dtype == g.dtype || g.c_dtype == accumulator_of(g.dtype), "a product of ",
            name_of(g.dtype), " cannot be stored as ", name_of(g.c_dtype));
  DTN_CHECK(g.ldc >= g.n, "ldc ", g.ldc, " is shorter than a row of ", g.n);
}

void clear_c(const Gemm& g) {
  std::int64_t element = static_cast<std::int64_t>(size_of(g.c_dtype));
  for (std::int64_t b = 0; b < g.batch; ++b) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      auto* row = static_cast<char*>(at_element(g.c, g.c_dtype, b * g.stride_c + i * g.ldc));
      std::fill_n(row, g.n * element, '\0');
    }
  }
}

void run_product(CpuQueue& queue, const Gemm& g, const GatherPart* gather_a,
                 const GatherPart* gather_b, const TileEpilogue* epilogue) {
  check_gemm(g, epilogue != nullptr);
  DTN_CHECK(!(gather_a && g.transpose_a) && !(gather_b && g.transpose_b),
            "a gathered factor cannot be transposed");
  DTN_CHECK(!(gather_a || gather_b) || g.batch == 1,
            "only a single product can have gathered factors");
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.k == 0) {
    DTN_CHECK(!epilogue, "an empty product cannot have an epilogue");
    if (!g.accumulate) clear_c(g);
    return;
  }
  Job job{g,       gather_a, gather_b, make_plan(g, epilogue != nullptr), accumulator_of(g.dtype),
          epilogue};
  const Plan& plan = job.plan;
  Scratch::Scope scope(queue.scratch());
  auto take = [&](std::int64_t count) {
    return scope.take<char>(count * static_cast<std::int64_t>(size_of(job.accumulator)));
  };
  if (plan.groups > 1) {
    std::int64_t parts = plan.groups - 1;
    job.partials = take(parts * g.m * g.n);
    if (g.a_sums) {
      char* sums = take(parts * g.m);
      job.sum_partials = sums;
      std::fill_n(sums, parts * g.m * static_cast<std::int64_t>(size_of(job.accumulator)), '\0');
    }
  }
  job.panels = pack_b(queue, scope, job);
  std::int64_t tiles = plan.tiles_m * plan.tiles_n;
  parallel_for(g.batch * plan.groups * tiles, [&](std::int64_t task) {
    std::int64_t tile = task % tiles, part = task / tiles;
    compute_tile(queue, job, part / plan.groups, part % plan.groups, tile / plan.tiles_n,
                 tile % plan.tiles_n);
  });
  if (plan.groups > 1) add_groups(queue, job);
}

}  // namespace

void run(CpuQueue& queue, const Gemm& g) { run_product(queue, g, nullptr, nullptr, nullptr); }

void run_with_epilogue(CpuQueue& queue, const Gemm& g, const TileEpilogue& epilogue) {
  run_product(queue, g, nullptr, nullptr, &epilogue);
}

void run_gathered(CpuQueue& queue, const Gemm& g, const GatherPart* a, const GatherPart* b,
                  const TileEpilogue* epilogue) {
  run_product(queue, g, a, b, epilogue);
}

const char* gemm_backend(DType dtype) { return uses_onednn(dtype) ? "onednn" : "eigen"; }

std::string gemm_library() {
  const std::string fast = onednn::library();
  return fast.empty() ? eigen::library() : fast;
}

bool force_eigen_gemm(bool on) { return eigen_forced.exchange(on); }

}  // namespace dtn
