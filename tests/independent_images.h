// Comparison of results that should not depend on the other images of a batch.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "kernels/gemm/gemm.h"
#include "tensors.h"

namespace dtn::test {

// Without oneDNN the last bits of a product depend on the number of images in a batch.
inline bool images_are_independent() {
  return std::string_view(gemm_backend(DType::kFloat32)) == "onednn";
}

// For results of the same images in other batches.
inline void expect_same_images(const Tensor& a, const Tensor& b) {
  if (images_are_independent()) {
    EXPECT_TRUE(same_bits(a, b));
  } else {
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_LE(max_abs_difference(doubles(a), doubles(b)), 1e-5);
  }
}

}  // namespace dtn::test
