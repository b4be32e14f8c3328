#include "cuda/matmul.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "core/cuda_device.h"
#include "core/cuda_products.h"
#include "cuda/matmul_plan.h"
#include "cuda/matmul_table.h"
#include "dtn/core/check.h"
#include "kernels/cuda/trace.h"

namespace dtn::cuda {
namespace {

std::atomic<bool> tf32_allowed{false};

// Elements from the first to the last of `batch` matrices of [rows, columns].
std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t batch,
                    std::int64_t stride) {
  return (batch - 1) * stride + (rows - 1) * ld + columns;
}

Product product_of(const Plan& plan) {
  const Matmul& p = plan.example;
  Product product;
  product.name = plan.name;
  product.dtype = p.dtype;
  product.d_dtype = p.d_dtype;
  product.a_elements =
      extent(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
  product.b_elements =
      extent(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
  product.d_elements = extent(p.m, p.n, p.ldd, p.batch, p.stride_d);
  product.c_elements = p.c ? product.d_elements : 0;
  product.bias_elements = p.bias ? p.n : 0;
  product.aligned = plan.aligned;
  product.multiply_adds = static_cast<double>(p.m * p.n) * static_cast<double>(p.k * p.batch);
  for (const Candidate& candidate : plan.candidates) product.candidates.push_back(candidate.recipe);
  product.chosen = plan.chosen;
  product.uses = plan.uses;
  return product;
}

// Handle, workspace and plans of the process. Never destroyed: at exit the driver may be gone
// before any static object.
class Library {
 public:
  static Library& instance() {
    static Library* library = new Library;
    return *library;
  }

  bool run(CudaQueue& queue, const Matmul& p) {
    std::lock_guard lock(mutex_);
    Plan& plan = plan_for(p);
    if (plan.candidates.empty()) return false;
    ++plan.uses;
    if (p.bias) set_bias(plan, p);
    const TracedLaunch traced([&] { return short_name(p); });
    const float one = 1, beta = p.c ? 1 : 0;
    check(cublasLtMatmul(handle_, plan.operation.get(), &one, p.b, plan.a.get(), p.a, plan.b.get(),
                         &beta, p.c ? p.c : p.d, plan.d.get(), p.d, plan.d.get(),
                         &plan.candidates[plan.chosen].algorithm, workspace_.get(), kWorkspaceBytes,
                         static_cast<cudaStream_t>(queue.stream())),
          "cublasLtMatmul", p);
    return true;
  }

  std::size_t plan_count() {
    std::lock_guard lock(mutex_);
    return plans_.size();
  }

  // Plans that differ only in the addresses of their operands count as one product.
  std::vector<Product> products() {
    std::lock_guard lock(mutex_);
    std::vector<Product> found;
    for (const Plan& plan : plans_) {
      if (plan.candidates.empty()) continue;
      auto same = std::ranges::find(found, plan.name, &Product::name);
      if (same == found.end()) {
        found.push_back(product_of(plan));
      } else {
        same->uses += plan.uses;
      }
    }
    return found;
  }

  void choose(const std::string& product, std::size_t candidate) {
    std::lock_guard lock(mutex_);
    const std::vector<Candidate>& candidates = plan_of(product).candidates;
    DTN_CHECK(candidate < candidates.size(), "candidate ", candidate, " of ", candidates.size(),
              " for ", product);
    const std::string recipe = candidates[candidate].recipe;
    for (Plan& plan : plans_) {
      if (plan.name == product) plan.chosen = find_candidate(plan.candidates, recipe, plan.chosen);
    }
  }

  Matmul example(const std::string& product) {
    std::lock_guard lock(mutex_);
    return plan_of(product).example;
  }

  const ProductLibrary& description() const { return description_; }

 private:
  Library() : policy_(product_policy()), workspace_(allocate(kWorkspaceBytes)) {
    if (cublasStatus_t status = cublasLtCreate(&handle_); status != CUBLAS_STATUS_SUCCESS) {
      throw Error(cat("CUDA: cublasLtCreate: ", cublasLtGetStatusString(status)));
    }
    description_ = {device_info().name, cat("cuBLASLt ", cublasLtGetVersion())};
  }

  Plan& plan_for(const Matmul& p) {
    const Key key = key_of(p, tf32_allowed.load(std::memory_order_relaxed));
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) return *found->second;
    Plan& plan = plans_.emplace_back(make_plan(handle_, p, key));
    plan.chosen = choice_for(plan);
    by_key_.emplace(key, &plan);
    return plan;
  }

  // Returns the fastest candidate measured on this kind of card, or else the library's first one,
  // which no measurement has beaten yet (with least-waste, the candidate with the least wasted
  // work).
  std::size_t choice_for(const Plan& plan) const {
    const std::string* measured =
        policy_.measured.find(description_.card, description_.version, plan.name);
    const std::size_t none = plan.candidates.size();
    const std::size_t choice = measured ? find_candidate(plan.candidates, *measured, none) : none;
    if (choice != none) return choice;
    if (!policy_.least_waste) return 0;
    return least_padding(plan.candidates, {plan.example.n, plan.example.m});
  }

  static std::size_t find_candidate(const std::vector<Candidate>& candidates,
                                    const std::string& recipe, std::size_t otherwise) {
    const auto found = std::ranges::find(candidates, recipe, &Candidate::recipe);
    return found == candidates.end() ? otherwise
                                     : static_cast<std::size_t>(found - candidates.begin());
  }

  Plan& plan_of(const std::string& product) {
    const auto found = std::ranges::find(plans_, product, &Plan::name);
    DTN_CHECK(found != plans_.end(), "no product with the name ", product, " was computed");
    return *found;
  }

  std::mutex mutex_;
  ProductPolicy policy_;
  ProductLibrary description_;
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<std::byte> workspace_;
  std::list<Plan> plans_;  // a list, so that the plans never move
  std::map<Key, Plan*> by_key_;
};

void check_product(const Matmul& p) {
  auto is_supported = [](DType t) { return t == DType::kFloat32 || t == DType::kBFloat16; };
  if (!is_supported(p.dtype) || !is_supported(p.d_dtype) ||
      (p.d_dtype != p.dtype && p.d_dtype != DType::kFloat32)) {
    throw Error(cat("a matrix product of ", name_of(p.dtype), " into ", name_of(p.d_dtype),
                    " is not computed on CUDA devices; float32 and bfloat16 are, into the same "
                    "type or float32"));
  }
  DTN_CHECK(p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0, "an empty product, ", describe(p));
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  DTN_CHECK(std::max({p.m, p.n, p.k, p.batch}) <= kMax, "a size is 2^31 or more in ", describe(p));
  DTN_CHECK(
      p.lda >= (p.transpose_a ? p.m : p.k) && p.ldb >= (p.transpose_b ? p.k : p.n) && p.ldd >= p.n,
      "a row stride is shorter than the row in ", describe(p));
  DTN_CHECK(!p.bias || p.batch == 1, "only a single product can have a bias, not ", describe(p));
  DTN_CHECK(reinterpret_cast<std::uintptr_t>(p.bias) % kBiasAlignment == 0,
            "the bias is not aligned to ", kBiasAlignment, " bytes in ", describe(p));
}

}  // namespace

void allow_tf32(bool on) { tf32_allowed = on; }

bool try_multiply(CudaQueue& queue, const Matmul& p) {
  check_product(p);
  return Library::instance().run(queue, p);
}

void multiply(CudaQueue& queue, const Matmul& p) {
  if (try_multiply(queue, p) || try_multiply_padded(queue, p)) return;
  throw Error(cat("CUDA: cuBLASLt has no algorithm for the product ", describe(p)));
}

std::size_t matmul_plan_count() { return Library::instance().plan_count(); }

std::vector<Product> products() { return Library::instance().products(); }

void choose_candidate(const std::string& product, std::size_t candidate) {
  Library::instance().choose(product, candidate);
}

void compute(const std::string& product, const ProductOperands& operands) {
  Matmul p = Library::instance().example(product);
  p.a = operands.a, p.b = operands.b, p.d = operands.d;
  p.c = p.c ? operands.c : nullptr;
  p.bias = p.bias ? operands.bias : nullptr;
  multiply(cuda_queue(), p);
}

ProductLibrary product_library() { return Library::instance().description(); }

}  // namespace dtn::cuda
