#include "nn/norms/shared_batch.h"

#include "dtn/dist/communicator.h"
#include "kernels/norm/channel_moments.h"

namespace dtn {
namespace {

class BatchOfRanks : public ops::SharedBatch {
 public:
  BatchOfRanks(Communicator& ranks, std::int64_t rows_here, std::int64_t rows)
      : ranks_(ranks), rows_here_(rows_here), rows_(rows) {}

  std::int64_t rows() const override { return rows_; }

  void combine(const ops::ChannelMoments& moments) const override {
    Tensor mean = moments.mean, rest = moments.rest, variance = moments.variance;
    void* rest_values = rest.defined() ? rest.raw() : nullptr;
    const Device device = mean.device();
    const std::int64_t channels = mean.numel(), width = 2 * channels + 1;
    Tensor own = Tensor::empty({width}, DType::kFloat64, device);
    run_on(device, PackMoments{variance.dtype(), channels, rows_here_, mean.raw(), rest_values,
                               variance.raw(), static_cast<double*>(own.raw())});
    Tensor all = ranks_.all_gather(own);
    if (device == kCpu) check_rows(all, width);
    run_on(device, CombineMoments{variance.dtype(), channels, ranks_.size(),
                                  static_cast<const double*>(all.raw()), mean.raw(), rest_values,
                                  variance.raw()});
  }

  void add_up(const Tensor& sums) const override { ranks_.all_reduce(sums); }

 private:
  // Checks sums on the host only; sums on a device are not read back.
  void check_rows(const Tensor& all, std::int64_t width) const {
    double sum = 0;
    for (std::int64_t end = width; end <= all.numel(); end += width) {
      sum += all.data<double>()[end - 1];
    }
    DTN_CHECK(sum == static_cast<double>(rows_), "sync: the ranks have ", sum, " rows, not ",
              rows_);
  }

  Communicator& ranks_;
  std::int64_t rows_here_, rows_;
};

}  // namespace

static bool is_shared(const Context& ctx, bool sync) {
  return sync && ctx.training() && ctx.ranks.communicator && !ctx.ranks.communicator->is_single();
}

std::shared_ptr<const ops::SharedBatch> shared_batch(const Context& ctx, bool sync,
                                                     const Tensor& x) {
  if (!is_shared(ctx, sync)) return nullptr;
  const std::int64_t samples = x.dim(0), rows = x.numel() / x.dim(-1);
  DTN_CHECK(samples > 0 && ctx.ranks.samples >= samples, "sync: ", samples,
            " samples are not a share of ", ctx.ranks.samples);
  return std::make_shared<BatchOfRanks>(*ctx.ranks.communicator, rows,
                                        ctx.ranks.samples * (rows / samples));
}

std::shared_ptr<const ops::SharedBatch> shared_rows(const Context& ctx, bool sync,
                                                    std::int64_t rows) {
  if (!is_shared(ctx, sync)) return nullptr;
  Communicator& ranks = *ctx.ranks.communicator;
  return std::make_shared<BatchOfRanks>(ranks, rows, ranks.sum(rows));
}

OptionSchema sync_option() {
  return flag_option("sync",
                     "computes the statistics of the batch over all ranks of a distributed run");
}

}  // namespace dtn
