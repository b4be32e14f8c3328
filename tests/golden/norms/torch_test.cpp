// Compares our normalizers with PyTorch's. The expected values are in tests/golden/data/norms.txt.
#include <fstream>
#include <map>
#include <sstream>

#include "norm_cases.h"

namespace dtn {
namespace {

using test::Doubles;

constexpr std::int64_t kBatch = 3, kTokens = 7, kChannels = 12;
const NormShape kShape{kChannels, 4, 1e-5};

// Same as values() of the script.
Doubles values(std::uint32_t seed, std::int64_t count, double scale = 1, double shift = 0) {
  Doubles out;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t h = i * 2654435761u + seed * 40503u;
    h ^= h >> 13;
    h *= 0x5BD1E995u;
    h ^= h >> 15;
    out.push_back(((h >> 16) / 32768.0 - 1) * scale + shift);
  }
  return out;
}

using Goldens = std::map<std::string, Doubles>;  // "case name" -> values

const Goldens& goldens() {
  static const Goldens all = [] {
    std::ifstream in(DTN_TESTS_FOLDER "/golden/data/norms.txt");
    EXPECT_TRUE(in.good());
    Goldens read;
    for (std::string line, name, what; std::getline(in, line);) {
      std::istringstream words(line);
      words >> name >> what;
      Doubles& numbers = read[name + " " + what];
      for (double v; words >> v;) numbers.push_back(v);
    }
    return read;
  }();
  return all;
}

// Sums of at most B T C terms, each rounded.
double tolerance(DType dtype) {
  return 5 * test::unit_roundoff(dtype) * std::sqrt(kBatch * kTokens * kChannels);
}

void expect_golden(const std::string& what, const Tensor& got) {
  const Doubles& want = goldens().at(what);
  ASSERT_GT(test::max_abs(want), 0) << what;
  const double floor = got.dtype() == DType::kFloat64 ? 1e-14 : 0;  // the file has 15 digits
  EXPECT_LE(test::max_abs_difference(test::doubles(got), want),
            (tolerance(got.dtype()) + floor) * test::max_abs(want))
      << what << ", " << name_of(got.dtype());
}

class Peer {
 public:
  Peer(const std::string& type, std::vector<NormOption> options, DType dtype) : dtype_(dtype) {
    NormConfig config;
    config.type = type;
    config.options = std::move(options);
    norm_ = make_normalizer(config, kShape, {store_, "norm"});
    store_.allocate(dtype);
    store_.initialize(0);
    test::assign(store_.find("norm.weight")->variable.value(), parameter(101));
    test::assign(store_.find("norm.bias")->variable.value(), parameter(102));
  }

  void check(const std::string& name, std::uint32_t seed, bool training = true) {
    store_.zero_gradients();
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.training = training;
    Variable x(tokens(seed, 2, 0.5), true);
    Variable y = norm_->forward(ctx, x, {1, kTokens});
    expect_golden(name + " y", y.value());
    tape.backward(y, tokens(seed + 50, 1, 0));
    expect_golden(name + " dx", x.grad());
    expect_golden(name + " dweight", store_.find("norm.weight")->variable.grad());
    expect_golden(name + " dbias", store_.find("norm.bias")->variable.grad());
    store_.commit_buffers();
    if (!training) return;
    for (const Buffer& b : store_.buffers()) {
      expect_golden(name + " " + b.name.substr(b.name.rfind('.') + 1), b.value);
    }
  }

 private:
  Tensor parameter(std::uint32_t seed) const {
    return test::from_doubles(values(seed, kChannels), {kChannels}, DType::kFloat64);
  }
  Tensor tokens(std::uint32_t seed, double scale, double shift) const {
    const Shape shape = {kBatch, kTokens, kChannels};
    return test::from_doubles(values(seed, shape.numel(), scale, shift), shape, dtype_);
  }

  DType dtype_;
  ParameterStore store_;
  std::unique_ptr<Normalizer> norm_;
};

const DType kTypes[] = {DType::kFloat32, DType::kFloat64};

TEST(PyTorchNorms, InstanceNorm) {
  for (DType dtype : kTypes) Peer("in", {}, dtype).check("in", 1);
}

TEST(PyTorchNorms, GroupNorm) {
  for (DType dtype : kTypes) {
    Peer("gn", {}, dtype).check("gn_heads", 2);
    Peer("gn", {{"groups", 1.0}}, dtype).check("gn_1", 3);
  }
}

TEST(PyTorchNorms, BatchNorm) {
  for (DType dtype : kTypes) {
    Peer bn("bn", {{"momentum", 0.3}}, dtype);
    bn.check("bn_first", 4);
    bn.check("bn_second", 5);
    bn.check("bn_eval", 6, false);
  }
}

}  // namespace
}  // namespace dtn
