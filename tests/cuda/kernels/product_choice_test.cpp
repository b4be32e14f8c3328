// Choice of the cuBLASLt algorithm of a product.
#include <cstdlib>

#include "core/cuda_products.h"
#include "cuda/matmul_table.h"
#include "cuda/twin.h"
#include "dtn/core/check.h"
#include "kernels/gemm/gemm.h"
#ifdef DTN_CUDA_EMULATED
#include "cuda/matmul_candidates.h"
#endif

namespace dtn::test {
namespace {

#ifdef DTN_CUDA_EMULATED
cuda::Candidate candidate_of(int rows, int columns, double waves) {
  cuda::Candidate candidate;
  candidate.tile = {rows, columns};
  candidate.waves = waves;
  return candidate;
}

TEST(CudaProductChoice, WorkIncludesTilePaddingAndLastWave) {
  const cuda::ProductSize size{432, 50176};
  EXPECT_DOUBLE_EQ(cuda::work_over_need(candidate_of(216, 128, 8), size), 1);
  EXPECT_DOUBLE_EQ(cuda::work_over_need(candidate_of(128, 256, 0), size), 512.0 / 432);
  EXPECT_DOUBLE_EQ(cuda::work_over_need(candidate_of(144, 128, 2.5), size), 3 / 2.5);
  EXPECT_EQ(cuda::work_over_need(candidate_of(0, 0, 1), size), 0);
}

TEST(CudaProductChoice, ChoosesLeastPadding) {
  const cuda::ProductSize narrow{432, 50176};
  const auto choose = [&](std::vector<cuda::Candidate> candidates) {
    return cuda::least_padding(candidates, narrow);
  };
  EXPECT_EQ(choose({}), 0u);
  EXPECT_EQ(
      choose({candidate_of(128, 256, 6), candidate_of(128, 128, 12), candidate_of(216, 128, 6)}),
      2u);
  EXPECT_EQ(choose({candidate_of(216, 128, 6), candidate_of(144, 128, 9)}), 0u) << "no better";
  EXPECT_EQ(choose({candidate_of(128, 256, 6), candidate_of(8, 128, 400)}), 0u)
      << "reads too often";
  EXPECT_EQ(choose({candidate_of(128, 256, 0.4), candidate_of(216, 128, 0.5)}), 0u)
      << "a small product";
  EXPECT_EQ(choose({candidate_of(0, 0, 6), candidate_of(216, 128, 6)}), 0u) << "an unknown tile";
  EXPECT_EQ(choose({candidate_of(128, 256, 6), candidate_of(216, 128, 6.1)}), 0u)
      << "waits too long";
}
#endif

TEST(CudaProductChoice, ParsesMeasuredProducts) {
  const cuda::MeasuredProducts table(
      "# for people\n\nH200\t13\tfloat32, 2 x 3 x 4\tfirst\nH200\t13\tfloat32, 2 x 3 x 4\tsecond\n",
      "file");
  ASSERT_NE(table.find("H200", "13", "float32, 2 x 3 x 4"), nullptr);
  EXPECT_EQ(*table.find("H200", "13", "float32, 2 x 3 x 4"), "second");
  EXPECT_EQ(table.find("H100", "13", "float32, 2 x 3 x 4"), nullptr);
  EXPECT_EQ(table.find("H200", "12", "float32, 2 x 3 x 4"), nullptr);
  EXPECT_EQ(table.size(), 1u);
  try {
    cuda::MeasuredProducts("a\tb\tc\td\na b c d\n", "file");
    FAIL() << "a line without tabs";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("file, line 2:"), std::string::npos) << e.what();
  }
}

TEST(CudaProductChoice, EnvironmentSelectsPolicy) {
  EXPECT_FALSE(cuda::product_policy().least_waste);
  setenv("DTN_CUDA_PRODUCTS", "first", 1);
  EXPECT_FALSE(cuda::product_policy().least_waste);
  EXPECT_EQ(cuda::product_policy().measured.size(), 0u);
  setenv("DTN_CUDA_PRODUCTS", "least-waste", 1);
  EXPECT_TRUE(cuda::product_policy().least_waste);
  setenv("DTN_CUDA_PRODUCTS", "/nowhere/table", 1);
  EXPECT_THROW(cuda::product_policy(), ConfigError);
  unsetenv("DTN_CUDA_PRODUCTS");
}

// Every algorithm candidate of a product computes the product.
TEST(CudaProductChoice, EveryCandidateComputesProduct) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t m = 1024, n = 432, k = 40;
  const Twin a = random_twin({m, k}, DType::kBFloat16, 1);
  const Twin b = random_twin({n, k}, DType::kBFloat16, 2);
  const Twin c = random_twin({m, n}, DType::kFloat32, 3);
  const Twin d = Twin::output({m, n}, DType::kFloat32);
  Gemm g{DType::kBFloat16, DType::kFloat32, m, n, k, a.at(kOnDevice),
         b.at(kOnDevice),  d.at(kOnDevice), k, k, n};
  g.transpose_b = true;
  run(cuda_queue(), g);
  Gemm host = g;
  Twin wanted = Twin::output({m, n}, DType::kFloat32);
  host.a = a.at(kOnHost), host.b = b.at(kOnHost), host.c = wanted.at(kOnHost);
  run(cpu_queue(), host);

  const std::string name = "bfloat16 to float32, 1024 x 432 x 40 nt, rows of 40 40 432";
  const auto find = [&] {
    for (cuda::Product& p : cuda::products()) {
      if (p.name == name) return p;
    }
    throw Error(name + " is not listed");
  };
  const cuda::Product product = find();
  EXPECT_EQ(product.multiply_adds, static_cast<double>(m * n * k));
  EXPECT_EQ(product.a_elements, m * k);
  EXPECT_EQ(product.b_elements, n * k);
  EXPECT_EQ(product.d_elements, m * n);
  EXPECT_EQ(product.c_elements + product.bias_elements, 0);
  ASSERT_GE(product.candidates.size(), 1u);
  for (std::size_t i = 0; i < product.candidates.size(); ++i) {
    cuda::choose_candidate(name, i);
    EXPECT_EQ(find().chosen, i);
    cuda::compute(name, {.a = g.a, .b = g.b, .d = g.c});
    EXPECT_LE(max_abs_difference(doubles(d.device()), doubles(wanted.host())), 1e-4) << i;
  }
  EXPECT_EQ(find().uses, product.uses + static_cast<std::int64_t>(product.candidates.size()));
  cuda::choose_candidate(name, product.chosen);
  EXPECT_THROW(cuda::choose_candidate(name, product.candidates.size()), Error);
  EXPECT_THROW(cuda::choose_candidate("another", 0), Error);
#ifdef DTN_CUDA_EMULATED
  const char* asked = std::getenv("DTN_CUDA_PRODUCTS");
  if (asked && std::string(asked) == "least-waste") {
    EXPECT_NE(product.candidates[product.chosen].find("tile=218"), std::string::npos)
        << "216 x 128 wastes nothing of 432 columns: " << product.candidates[product.chosen];
  } else {
    EXPECT_EQ(product.chosen, 0u) << "the library's first, where nothing was measured";
  }
#endif
}

}  // namespace
}  // namespace dtn::test
