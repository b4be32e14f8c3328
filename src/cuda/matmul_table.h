// Measured choice of cuBLASLt's fastest algorithms, as text with one line for each product:
//   card <tab> version of the library <tab> product <tab> algorithm
// Lines that begin with # are comments. `dtn-bench products` writes this format.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace dtn::cuda {

class MeasuredProducts {
 public:
  MeasuredProducts() = default;
  // The later of two lines for one product counts. Throws ConfigError naming `source` and the line
  // if a line does not have four fields.
  MeasuredProducts(std::string_view text, const std::string& source);

  // Returns null if this product has not been measured on that card with that version.
  const std::string* find(const std::string& card, const std::string& version,
                          const std::string& product) const;
  std::size_t size() const { return recipes_.size(); }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, std::string> recipes_;
};

// Choice of the algorithm for products that are computed for the first time.
struct ProductPolicy {
  MeasuredProducts measured;
  // For products that were not measured: take the candidate whose tiles waste least
  // (matmul_candidates.h) instead of the library's first.
  bool least_waste = false;
};

// Reads DTN_CUDA_PRODUCTS from the environment: `first`, the library's first candidate for every
// product; `least-waste`, the candidate whose tiles waste least; or a file of measured products. If
// the variable is not set, uses the measured products that the program was built with. Throws
// ConfigError if the file cannot be read.
ProductPolicy product_policy();

}  // namespace dtn::cuda
