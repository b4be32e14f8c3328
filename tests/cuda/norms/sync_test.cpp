// Normalizers over the batch with `sync`, on the device. The other rank is simulated: it has the
// same rows as this rank. The result is that of one rank with every sample twice.
#include <numeric>

#include "core/cuda_stream.h"
#include "cuda/twin.h"
#include "kernels/pointwise/pointwise.h"
#include "norm_cases.h"
#include "op_runs.h"
#include "thread_ranks.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3, kChannels = 40;
const TokenGrid kGrid{5, 4};

class SameRows : public DeviceTransport {
 public:
  void all_reduce(Tensor x, DType) override {
    run_on(x.device(), Add{x.dtype(), x.numel(), x.raw(), x.raw(), x.raw()});
  }
  void broadcast(Tensor, int) override { ADD_FAILURE(); }
  void all_gather(const Tensor& x, Tensor all) override {
    for (int rank : {0, 1}) all.slice(rank, rank + 1).copy_from(x);
  }
  void finish() override {}
  std::string failure() const override { return ""; }
};

// Grid of sequences with different lengths; each sample occurs `copies` times.
const std::vector<std::int64_t> kLengths = {20, 1, 7};
TokenGrid padded_grid(int copies, Device device) {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < copies; ++i) {
    lengths.insert(lengths.end(), kLengths.begin(), kLengths.end());
  }
  return {1, kGrid.tokens(), 0, Tensor::from(lengths, {std::ssize(lengths)}).to(device)};
}

// Returns the output, the gradients of x and of the parameters, and the buffers.
std::vector<Doubles> run_norm(const NormCase& c, DType dtype, const Tensor& x, const Tensor& dy,
                              Context ctx, Device device, const TokenGrid& grid) {
  const NormShape shape{kChannels, 8, 1e-5, kGrid};
  auto host = build_norm(c.config, shape, DType::kFloat32);
  BuiltNorm built;
  built.norm = make_normalizer(c.config, shape, {built.store, "norm"});
  built.store.allocate(DType::kFloat32, device);
  built.store.values().copy_from(host->store.values());
  built.store.restart_buffers();
  Variable input(as(x, dtype).to(device), true);
  Tape tape;
  ctx.tape = &tape;
  ctx.mode.training = true;
  Variable y = built.norm->forward(ctx, input, grid);
  tape.backward(y, as(dy, dtype).to(device));
  std::vector<Doubles> results = {doubles(y.value().to(kCpu)), doubles(input.grad().to(kCpu))};
  for (const Parameter& p : built.store.parameters()) {
    results.push_back(doubles(ParameterStore::view(built.store.gradients(), p).to(kCpu)));
  }
  for (const Buffer& b : built.store.buffers()) results.push_back(doubles(b.next.to(kCpu)));
  return results;
}

Tensor twice(const Tensor& x) {
  Tensor both = Tensor::empty({2 * x.dim(0), x.dim(1), x.dim(2)}, x.dtype());
  both.slice(0, x.dim(0)).copy_from(x);
  both.slice(x.dim(0), both.dim(0)).copy_from(x);
  return both;
}

void expect_one_batch(bool padded) {
  const Tensor x = representable(random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, 2, 0.5));
  const Tensor dy = representable(random_tensor(x.shape(), 2));
  for (const NormCase& c : norm_cases()) {
    const bool* sync = c.config.find<bool>("sync");
    if (!c.training || !sync || !*sync) continue;
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(cat(c.name, ", ", name_of(dtype)));
      const auto grid_of = [padded](int copies, Device device) {
        return padded ? padded_grid(copies, device) : kGrid;
      };
      auto want = run_norm(c, dtype, twice(x), twice(dy), {}, kCpu, grid_of(2, kCpu));
      for (std::size_t i : {0, 1}) want[i].resize(static_cast<std::size_t>(x.numel()));
      std::vector<Doubles> got;
      dtn::testing::with_ranks(2, [&](Communicator& ranks) {
        if (!ranks.is_root()) {
          if (padded) ranks.sum(std::reduce(kLengths.begin(), kLengths.end()));
          return;
        }
        ranks.set_device_transport(std::make_unique<SameRows>());
        Context ctx;
        ctx.ranks.communicator = &ranks;
        ctx.ranks.samples = 2 * kBatch;
        got = run_norm(c, dtype, x, dy, ctx, kCuda, grid_of(1, kCuda));
      });
      // Each rank has only its part of the parameter gradients.
      const std::size_t parameters = c.config.type == "sn" ? 4 : 2;
      for (std::size_t i = 2; i < 2 + parameters; ++i) {
        for (double& g : got[i]) g *= 2;
      }
      const double bound = 2 * float32_tolerance(2 * kBatch * kGrid.tokens() + kChannels) +
                           (dtype == DType::kBFloat16 ? 2 * unit_roundoff(dtype) : 0);
      expect_close(got, want, bound, c.name);
    }
  }
}

TEST(CudaSync, RanksMatchOneBatch) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_one_batch(false);
}

TEST(CudaSync, RanksWithPaddedSequencesMatchOneBatch) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_one_batch(true);
}

}  // namespace
}  // namespace dtn::test
