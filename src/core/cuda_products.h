// The kinds of matrix product that this process has computed on a CUDA device, and the library
// algorithm that each uses. src/cuda/measured_products.inc holds the committed choices.
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
  // Elements from the first used one to the last. 0: there is no such operand.
  std::int64_t a_elements = 0, b_elements = 0, c_elements = 0, d_elements = 0, bias_elements = 0;
  bool aligned = true;  // all operands begin at multiples of 16 bytes
  double multiply_adds = 0;
  std::int64_t uses = 0;                // number of times it was computed
  std::vector<std::string> candidates;  // algorithms, in the library's order of preference
  std::size_t chosen = 0;               // index into `candidates`
};

// Returns the products in the order in which they were first computed, without those that the
// library cannot compute.
std::vector<Product> products();
// Sets the algorithm for this kind of product from now on, also in graphs that are captured later.
// Throws Error if there is no such product or candidate.
void choose_candidate(const std::string& product, std::size_t candidate);

// Device memory with the number of elements that the product names, each aligned to 256 bytes.
struct ProductOperands {
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  void* d = nullptr;
};
// Enqueues one product of that kind, by its present choice. The product must be `aligned`.
void compute(const std::string& product, const ProductOperands& operands);

// Card and library version for which a measurement of products is valid.
struct ProductLibrary {
  std::string card, version;
};
ProductLibrary product_library();

}  // namespace dtn::cuda
