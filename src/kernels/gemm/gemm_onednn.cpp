#include "kernels/gemm/gemm_onednn.h"

#include "dtn/core/check.h"

#if defined(DTN_HAVE_ONEDNN)
#include <array>
#include <dnnl.hpp>
#include <unordered_map>

namespace dtn::onednn {
namespace {

using dnnl::memory;

// Maximum number of primitives kept per thread; a model has some dozens of shapes.
constexpr std::size_t kMaxEntries = 1024;
// A fixed row count, so that the packed layout does not depend on the tile that needs it first.
constexpr std::int64_t kPackingRows = 128;

struct Key {
  std::array<std::int64_t, 10> v;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = 1469598103934665603u;
    for (std::int64_t x : key.v) h = (h ^ static_cast<std::uint64_t>(x)) * 1099511628211u;
    return static_cast<std::size_t>(h ^ (h >> 29));
  }
};
template <class T>
using Cache = std::unordered_map<Key, T, KeyHash>;

// Returns the entry of `key`; make() creates it the first time.
template <class T, class Make>
T& cached(Cache<T>& cache, const Key& key, Make&& make) {
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() >= kMaxEntries) cache.clear();
  return cache.emplace(key, make()).first->second;
}

struct Product {
  dnnl::matmul primitive;
  memory a, b, c, scratch;
  std::int64_t scratch_bytes;
};
struct Reorder {
  dnnl::reorder primitive;
  memory from;
};
struct ThreadState {
  dnnl::stream stream;
  Cache<Product> products;
  Cache<Reorder> reorders;
  Cache<memory::desc> layouts;
  Cache<memory> panels;
};

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

ThreadState& state() {
  static thread_local ThreadState instance{dnnl::stream(engine()), {}, {}, {}, {}};
  return instance;
}

memory::data_type type_of(DType t) {
  return t == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc matrix(DType t, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                    bool transpose) {
  memory::dims strides = transpose ? memory::dims{1, ld} : memory::dims{ld, 1};
  return memory::desc({rows, cols}, type_of(t), strides);
}

void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) throw Error(cat("oneDNN could not ", what, " (status ", status, ")"));
}

// oneDNN 3 describes an operation in one step, oneDNN 2 in two.
dnnl::matmul::primitive_desc describe(const memory::desc& a, const memory::desc& b,
                                      const memory::desc& c,
                                      const dnnl::primitive_attr& attributes = {}) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine()};
#endif
}

// Plain row-major rows, oneDNN's answer if it has no special layout.
memory::desc rows_in_turn(const GemmTile& t, std::int64_t stride) {
  return matrix(t.dtype, t.k, t.n, stride, false);
}

// Returns the layout that oneDNN prefers for a [k, n] right-hand side that is used many times.
const memory::desc& packed_layout(const GemmTile& t) {
  return cached(state().layouts, {{static_cast<int>(t.dtype), t.k, t.n}}, [&] {
    memory::desc a = matrix(t.dtype, kPackingRows, t.k, t.k, false);
    memory::desc b({t.k, t.n}, type_of(t.dtype), memory::format_tag::any);
    memory::desc c = matrix(DType::kFloat32, kPackingRows, t.n, t.n, false);
    memory::desc layout = describe(a, b, c).weights_desc();
    return layout == rows_in_turn(t, t.n) ? rows_in_turn(t, uncrowded(t.dtype, t.n)) : layout;
  });
}

Product make_product(const GemmTile& t) {
  memory::desc a = matrix(t.dtype, t.m, t.k, t.lda, t.transpose_a);
  memory::desc b = t.packed_b ? packed_layout(t) : matrix(t.dtype, t.k, t.n, t.ldb, t.transpose_b);
  memory::desc c = matrix(t.c_dtype, t.m, t.n, t.ldc, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (t.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
  const dnnl::matmul::primitive_desc pd = describe(a, b, c, attributes);
  memory::desc scratch = pd.scratchpad_desc();
  auto empty = [](const memory::desc& desc) { return memory(desc, engine(), DNNL_MEMORY_NONE); };
  return {dnnl::matmul(pd), empty(a),       t.packed_b ? memory() : empty(b),
          empty(c),         empty(scratch), static_cast<std::int64_t>(scratch.get_size())};
}

Product& find_product(const GemmTile& t) {
  int flags = t.transpose_a + 2 * t.transpose_b + 4 * t.accumulate + 8 * (t.packed_b != nullptr);
  Key key{{static_cast<int>(t.dtype), static_cast<int>(t.c_dtype), t.m, t.n, t.k, t.lda,
           t.packed_b ? 0 : t.ldb, t.ldc, flags}};
  return cached(state().products, key, [&] { return make_product(t); });
}

Reorder& find_reorder(const GemmTile& t, const memory& panel) {
  const Key key{{static_cast<int>(t.dtype), t.k, t.n, t.ldb, t.transpose_b}};
  return cached(state().reorders, key, [&] {
    memory::desc from = matrix(t.dtype, t.k, t.n, t.ldb, t.transpose_b);
    dnnl::reorder::primitive_desc pd(engine(), from, engine(), panel.get_desc());
    return Reorder{dnnl::reorder(pd), memory(from, engine(), DNNL_MEMORY_NONE)};
  });
}

void point(memory& m, const void* data) { m.set_data_handle(const_cast<void*>(data)); }

bool has_isa(dnnl::cpu_isa isa) {
  const int wanted = static_cast<int>(isa);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace

std::string library() {
  const dnnl_version_t& v = *dnnl_version();
  return cat("oneDNN ", v.major, ".", v.minor, ".", v.patch);
}

bool supports(DType dtype) {
  if (dtype == DType::kFloat32) return true;
  static const bool fast_bf16 = has_isa(dnnl::cpu_isa::avx512_core_amx) ||
                                (has_isa(dnnl::cpu_isa::avx512_core_bf16) && !is_intel());
  return dtype == DType::kBFloat16 && fast_bf16;
}

bool has_own_layout(DType dtype) {
  GemmTile t{};
  t.dtype = dtype;
  t.k = t.n = 256;
  return packed_layout(t) != rows_in_turn(t, uncrowded(dtype, t.n));
}

void multiply(CpuQueue& queue, const GemmTile& t) try {
  Product& p = find_product(t);
  Scratch::Scope scope(queue.scratch());
  point(p.a, t.a);
  point(p.c, t.c);
  if (!t.packed_b) point(p.b, t.b);
  if (p.scratch_bytes) point(p.scratch, scope.take<char>(p.scratch_bytes));
  dnnl_memory_t b =
      t.packed_b ? static_cast<dnnl_memory_t>(const_cast<void*>(t.packed_b)) : p.b.get();
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p.a.get()},
                            {DNNL_ARG_WEIGHTS, b},
                            {DNNL_ARG_DST, p.c.get()},
                            {DNNL_ARG_SCRATCHPAD, p.scratch.get()}};
  check(dnnl_primitive_execute(p.primitive.get(), state().stream.get(), p.scratch_bytes ? 4 : 3,
                               args),
        "multiply");
} catch (const dnnl::error& e) {
  throw Error(cat("oneDNN could not multiply [", t.m, ", ", t.k, "] by [", t.k, ", ", t.n, "] in ",
                  name_of(t.dtype), ": ", e.what()));
}

Panel plan_panel(const GemmTile& t, int slot) try {
  Cache<memory>& cache = state().panels;
  // Only before the first panel of a product, because its earlier panels are in use.
  if (slot == 0 && cache.size() >= kMaxEntries) cache.clear();
  const memory::desc& layout = packed_layout(t);
  Key key{{static_cast<int>(t.dtype), t.k, t.n, slot}};
  auto found = cache.find(key);
  if (found == cache.end()) {
    found = cache.emplace(key, memory(layout, engine(), DNNL_MEMORY_NONE)).first;
  }
  return {found->second.get(), layout.get_size()};
} catch (const dnnl::error& e) {
  throw Error(cat("oneDNN could not lay out a [", t.k, ", ", t.n, "] matrix of ", name_of(t.dtype),
                  ": ", e.what()));
}

void bind_panel(const Panel& panel, void* data) {
  check(dnnl_memory_set_data_handle(static_cast<dnnl_memory_t>(panel.handle), data),
        "bind a packed matrix");
}

void pack_panel(CpuQueue&, const GemmTile& t, const Panel& panel) try {
  memory to(static_cast<dnnl_memory_t>(panel.handle), true);
  Reorder& r = find_reorder(t, to);
  point(r.from, t.b);
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, r.from.get()}, {DNNL_ARG_TO, to.get()}};
  check(dnnl_primitive_execute(r.primitive.get(), state().stream.get(), 2, args), "pack a matrix");
} catch (const dnnl::error& e) {
  throw Error(cat("oneDNN could not pack a [", t.k, ", ", t.n, "] matrix of ", name_of(t.dtype),
                  ": ", e.what()));
}

}  // namespace dtn::onednn

#else  // built without oneDNN

namespace dtn::onednn {
namespace {
[[noreturn]] void fail() { throw Error("built without oneDNN; configure with -DDTN_ONEDNN=ON"); }
}  // namespace

std::string library() { return ""; }
bool supports(DType) { return false; }
bool has_own_layout(DType) { return false; }
void multiply(CpuQueue&, const GemmTile&) { fail(); }
Panel plan_panel(const GemmTile&, int) { fail(); }
void bind_panel(const Panel&, void*) { fail(); }
void pack_panel(CpuQueue&, const GemmTile&, const Panel&) { fail(); }

}  // namespace dtn::onednn

#endif
