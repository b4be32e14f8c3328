// Which of cuBLASLt's algorithms are the fastest, as measured: text of a line for each product,
//   card <tab> version of the library <tab> product <tab> algorithm
// where lines that begin with # say something to people. `dtn-bench products` writes such lines.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace dtn::cuda {

class MeasuredProducts {
 public:
  MeasuredProducts() = default;
  // Of two lines for one product the later counts. Throws ConfigError naming `source` and the line
  // that has not four fields.
  MeasuredProducts(std::string_view text, const std::string& source);

  // Null when this product has not been measured there.
  const std::string* find(const std::string& card, const std::string& version,
                          const std::string& product) const;
  std::size_t size() const { return recipes_.size(); }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, std::string> recipes_;
};

// How products are chosen that are computed for the first time.
struct ProductPolicy {
  MeasuredProducts measured;
  // Of those that were not measured, the offer whose tiles waste least (matmul_offers.h); otherwise
  // the library's first.
  bool least_waste = false;
};

// DTN_CUDA_PRODUCTS in the environment: `first`, the library's first offer for every product;
// `least-waste`, the offer whose tiles waste least; a file of measured products; or, where it is
// not set, the measured products that the program was built with. Throws ConfigError when the file
// cannot be read.
ProductPolicy product_policy();

}  // namespace dtn::cuda
