// The kinds of matrix product that this process has computed on a CUDA device, and which of the
// library's algorithms each takes. What is committed is in src/cuda/measured_products.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtn/core/dtype.h"

namespace dtn::cuda {

// D = op(A) op(B) + C + bias of one size, layout and type.
struct Product {
  std::string name;          // the same in every process that computes such a product
  DType dtype{}, d_dtype{};  // of A and B; of C, D and bias
  // Elements from the first that is used to the last. 0: there is no such operand.
  std::int64_t a_elements = 0, b_elements = 0, c_elements = 0, d_elements = 0, bias_elements = 0;
  bool aligned = true;  // all operands begin at multiples of 16 bytes
  double multiply_adds = 0;
  std::int64_t uses = 0;            // how often it has been computed
  std::vector<std::string> offers;  // algorithms, the one first that the library likes best
  std::size_t chosen = 0;           // of them
};

// In the order in which they were first computed. Those that the library cannot compute are left
// out.
std::vector<Product> products();
// From now on this kind of product is computed so, here and in graphs that are captured later.
// Throws Error when there is no such product or offer.
void choose_offer(const std::string& product, std::size_t offer);

// Device memory of as many elements as the product says, each aligned to 256 bytes.
struct ProductOperands {
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  void* d = nullptr;
};
// Enqueues one such product, which must be `aligned`, by its present choice.
void compute(const std::string& product, const ProductOperands& operands);

// What a measurement of products is good for: a kind of card and a version of the library.
struct ProductLibrary {
  std::string card, version;
};
ProductLibrary product_library();

}  // namespace dtn::cuda
