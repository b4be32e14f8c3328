// Normalizers without weight and bias (NormShape::affine false): they have no such parameters, and
// compute as if the gain of every channel were 1 and the shift 0.
#include "dtn/nn/norm_layers.h"
#include "norm_cases.h"
#include "texts.h"

namespace dtn {
namespace {

using test::BuiltNorm;
using test::Doubles;
using test::NormCase;
using test::random_tensor;

constexpr std::int64_t kBatch = 3;
const NormShape kShape{12, 4, 1e-4, {4, 6}};

bool is_affine(const Parameter& p) { return p.name == "norm.weight" || p.name == "norm.bias"; }

Parameter& parameter(BuiltNorm& built, const std::string& name) {
  Parameter* p = built.store.find(name);
  DTN_CHECK(p, "no parameter ", name);
  return *p;
}

// A normalizer with weight 1 and bias 0, and the same one without the two.
struct Pair {
  std::unique_ptr<BuiltNorm> with, without;

  Pair(const NormConfig& config, const NormShape& shape, DType dtype) {
    NormShape bare = shape;
    bare.affine = false;
    with = test::build_norm(config, shape, dtype);
    without = test::build_norm(config, bare, dtype);
    for (Parameter& p : with->store.parameters()) {
      Tensor value = p.variable.value();
      if (is_affine(p)) {
        value.copy_from(Tensor::full(p.shape, dtype, p.name == "norm.weight" ? 1 : 0));
      } else {
        Tensor to = parameter(*without, p.name).variable.value();
        to.copy_from(value);
      }
    }
    for (std::size_t i = 0; i < with->store.buffers().size(); ++i) {
      Tensor to = without->store.buffers()[i].value;
      to.copy_from(with->store.buffers()[i].value);
    }
    for (BuiltNorm* b : {with.get(), without.get()}) b->store.restart_buffers();
  }
};

struct Result {
  Doubles y, dx, dmodulation;
  std::vector<Doubles> others;  // gradients of all parameters but weight and bias, and buffers
};

enum class Pass { kForward, kReference, kModulated };

Result run(BuiltNorm& built, const NormCase& c, const TokenGrid& grid, DType dtype, Pass pass) {
  const std::int64_t channels = kShape.channels;
  const Variable x(test::as(random_tensor({kBatch, grid.tokens(), channels}, 1, 2, 0.5), dtype),
                   true);
  const Variable modulation(
      test::as(random_tensor({kBatch, 2 * channels}, 2), accumulator_of(dtype)), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = c.training;
  const Variable y = pass == Pass::kForward ? built.norm->forward(ctx, x, grid)
                     : pass == Pass::kReference
                         ? built.norm->reference(ctx, x, grid)
                         : built.norm->forward_modulated(ctx, x, modulation, grid);
  tape.backward(y, test::as(random_tensor(y.shape(), 3), dtype));
  Result result{test::doubles(y.value()), test::doubles(x.grad()), {}, {}};
  if (pass == Pass::kModulated) result.dmodulation = test::doubles(modulation.grad());
  for (const Parameter& p : built.store.parameters()) {
    if (is_affine(p)) continue;
    result.others.push_back(test::doubles(ParameterStore::view(built.store.gradients(), p)));
  }
  if (pass == Pass::kForward) {
    for (const Buffer& b : built.store.buffers()) result.others.push_back(test::doubles(b.next));
  }
  return result;
}

class WithoutAffine : public testing::TestWithParam<NormCase> {
 protected:
  TokenGrid grid() const {
    TokenGrid grid = kShape.grid;
    if (GetParam().config.takes_prefix()) grid.prefix = 2;
    return grid;
  }
};

TEST_P(WithoutAffine, HasNoWeightAndBias) {
  Pair pair(GetParam().config, kShape, DType::kFloat32);
  EXPECT_NE(pair.with->store.find("norm.weight"), nullptr);
  std::size_t others = 0;
  for (const Parameter& p : pair.with->store.parameters()) others += !is_affine(p);
  EXPECT_EQ(pair.without->store.parameters().size(), others);
  for (const char* name : {"norm.weight", "norm.bias"}) {
    EXPECT_EQ(pair.without->store.find(name), nullptr) << name;
  }
}

TEST_P(WithoutAffine, ComputesAsWithGainOneAndShiftZero) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (Pass pass : {Pass::kForward, Pass::kReference}) {
      Pair pair(GetParam().config, kShape, accumulator_of(dtype));
      const Result want = run(*pair.with, GetParam(), grid(), dtype, pass);
      const Result got = run(*pair.without, GetParam(), grid(), dtype, pass);
      EXPECT_GT(test::max_abs(want.dx), 0);
      EXPECT_EQ(got.y, want.y) << name_of(dtype);
      EXPECT_EQ(got.dx, want.dx) << name_of(dtype);
      EXPECT_EQ(got.others, want.others) << name_of(dtype);
    }
  }
}

TEST_P(WithoutAffine, ModulatesAlike) {
  Pair pair(GetParam().config, kShape, DType::kFloat32);
  const Result want = run(*pair.with, GetParam(), grid(), DType::kFloat32, Pass::kModulated);
  const Result got = run(*pair.without, GetParam(), grid(), DType::kFloat32, Pass::kModulated);
  const double bound = 64 * test::unit_roundoff(DType::kFloat32);
  EXPECT_LE(test::max_abs_difference(got.y, want.y), bound * test::max_abs(want.y));
  EXPECT_LE(test::max_abs_difference(got.dx, want.dx), bound * test::max_abs(want.dx));
  EXPECT_GT(test::max_abs(want.dmodulation), 0);
  EXPECT_LE(test::max_abs_difference(got.dmodulation, want.dmodulation),
            bound * test::max_abs(want.dmodulation));
  ASSERT_EQ(got.others.size(), want.others.size());
  for (std::size_t i = 0; i < want.others.size(); ++i) {
    EXPECT_LE(test::max_abs_difference(got.others[i], want.others[i]),
              bound * test::max_abs(want.others[i]))
        << "parameter " << i;
  }
}

TEST_P(WithoutAffine, HasTheSameView) {
  Pair pair(GetParam().config, kShape, DType::kFloat32);
  const Tensor x = random_tensor({1, grid().tokens(), kShape.channels}, 1, 2, 0.5);
  const NormView want = pair.with->norm->view(x, grid()), got = pair.without->norm->view(x, grid());
  EXPECT_EQ(test::doubles(got.x), test::doubles(want.x));
  ASSERT_EQ(got.mean.defined(), want.mean.defined());
  if (want.mean.defined()) {
    EXPECT_LE(test::max_abs_difference(test::doubles(got.mean), test::doubles(want.mean)), 1e-7);
  }
}

std::vector<NormCase> cases() {
  std::vector<NormCase> fitting;
  for (const NormCase& c : test::norm_cases()) {
    if (test::fits(c, kShape) && test::has_weight(c.config.type)) fitting.push_back(c);
  }
  return fitting;
}

INSTANTIATE_TEST_SUITE_P(Registry, WithoutAffine, testing::ValuesIn(cases()), [](const auto& each) {
  std::string name = each.param.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

// Sequences of different lengths take other paths through the kernels.
TEST(WithoutAffineLengths, ComputeAsWithGainOneAndShiftZero) {
  const NormShape shape{12, 4, 1e-4, {1, 7}};
  const TokenGrid grid{1, 7, 0, Tensor::from<std::int64_t>({7, 4, 5}, {kBatch})};
  int tested = 0;
  for (const NormCase& c : test::norm_cases()) {
    if (!test::fits(c, shape) || !test::has_weight(c.config.type)) continue;
    Pair pair(c.config, shape, DType::kFloat32);
    if (!pair.with->norm->takes_lengths()) continue;
    ++tested;
    for (Pass pass : {Pass::kForward, Pass::kReference}) {
      const Result want = run(*pair.with, c, grid, DType::kFloat32, pass);
      const Result got = run(*pair.without, c, grid, DType::kFloat32, pass);
      EXPECT_EQ(got.y, want.y) << c.name;
      EXPECT_EQ(got.dx, want.dx) << c.name;
    }
  }
  EXPECT_GT(tested, 8);
}

NormConfig config_of(const char* type, std::optional<bool> affine) {
  NormConfig config;
  config.type = type;
  config.affine = affine;
  return config;
}

TEST(WithoutAffineConfig, LeavesOutTheParameters) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    const char* type = schema.type.c_str();
    if (!schema.stands_alone() || !test::has_weight(type)) continue;
    auto has_weight = [&](std::optional<bool> affine) {
      return test::build_norm(config_of(type, affine), kShape, DType::kFloat32)
                 ->store.find("norm.weight") != nullptr;
    };
    EXPECT_TRUE(has_weight({})) << type;
    EXPECT_TRUE(has_weight(true)) << type;
    EXPECT_FALSE(has_weight(false)) << type;
  }
}

// A normalizer without a gain and shift of its own refuses the key.
TEST(WithoutAffineConfig, IsRefusedWhereThereAreNoParameters) {
  for (const auto& [type, affine] : {std::pair{"pono", true}, {"dln", true}, {"dln", false}}) {
    test::expect_error<ConfigError>(
        [&] { test::build_norm(config_of(type, affine), kShape, DType::kFloat32); },
        {type, "affine"});
  }
  EXPECT_TRUE(
      test::build_norm(config_of("pono", {}), kShape, DType::kFloat32)->store.parameters().empty());
}

// Affine by default, prescribed by the model: `affine: true` of the config does not add it.
TEST(WithoutAffineConfig, DoesNotAddThemWhereTheModelHasNone) {
  NormShape bare = kShape;
  bare.affine = false;
  auto built = test::build_norm(config_of("ln", true), bare, DType::kFloat32);
  EXPECT_EQ(built->store.parameters().size(), 0u);
}

TEST(WithoutAffineConfig, GivesAffineOfAnEvaluation) {
  Pair pair(config_of("bn", {}), kShape, DType::kFloat32);
  Context ctx;
  const auto want = pair.with->norm->eval_affine(ctx), got = pair.without->norm->eval_affine(ctx);
  ASSERT_TRUE(want && got);
  EXPECT_EQ(test::doubles(got->gain.value()), test::doubles(want->gain.value()));
  EXPECT_EQ(test::doubles(got->shift.value()), test::doubles(want->shift.value()));
}

TEST(WithoutAffineConfig, RejectsAWeightThatStartsAtZero) {
  ParameterStore store;
  const Scope scope(store);
  try {
    LinearNorm(scope / "c", scope / "bn", 12, {config_of("bn", false), kShape, true});
    FAIL();
  } catch (const ConfigError& e) {
    const std::string message = e.what();
    for (const char* word : {"model.norm.affine", "bn", "start at 0"}) {
      EXPECT_NE(message.find(word), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace dtn
