#include "train/measure_statistics.h"

#include <algorithm>
#include <string>
#include <vector>

#include "data/feed/open_split.h"
#include "dtn/core/check.h"
#include "dtn/tasks/task.h"

namespace dtn {
namespace {

constexpr const char* kMomentum = "momentum";

template <class Option>
bool is_momentum(const Option& option) {
  return option.key == kMomentum;
}

bool has_statistics(const NormConfig& norm, const NormRegistry& norms) {
  return norms.at(norm.type).schema.running_statistics;
}

// True if the statistics move by a share of each batch.
bool has_momentum(const NormConfig& norm, const NormRegistry& norms) {
  return std::ranges::any_of(norms.at(norm.type).schema.options, is_momentum<OptionSchema>);
}

template <class Model>  // ModelConfig, const or not
auto norms_of(Model& model) {
  std::vector norms{&model.norm};
  if (model.decoder_norm) norms.push_back(&*model.decoder_norm);
  return norms;
}

// Lets the statistics after a batch be those of the batch.
ExperimentConfig without_memory(ExperimentConfig config, const NormRegistry& norms) {
  for (NormConfig* norm : norms_of(config.model)) {
    if (!has_statistics(*norm, norms)) continue;
    std::erase_if(norm->options, is_momentum<NormOption>);
    norm->options.push_back({kMomentum, 1.0});
  }
  return config;
}

// The samples of a pass through the model.
std::int64_t rows_of(const TrainConfig& train) {
  return train.micro_batch.value_or(train.batch_size);
}

// Sums the statistics of `batches` batches, and returns their number of elements.
std::vector<double> sum_statistics(Task& task, const ExperimentConfig& config, Device device,
                                   std::int64_t batches,
                                   const std::function<void(std::int64_t done)>& on_batch) {
  const Tensor& measured = task.stores().front().value->next_buffers();
  std::vector<double> sum(static_cast<std::size_t>(measured.numel()));
  const auto split = open_split(task.source(Split::kTrain, device), config, Split::kTrain,
                                {.device = device, .batch_size = rows_of(config.train)});
  DeviceBatch batch;
  for (std::int64_t done = 0, epoch = 0; done < batches; ++epoch) {
    split->feeder().start(epoch);
    while (done < batches && split->feeder().next(batch)) {
      Context ctx;
      ctx.mode.training = true;
      ctx.rng.seed = config.seed;
      ctx.rng.step = static_cast<std::uint32_t>(done);
      task.outputs(ctx, batch.fields);
      const Tensor host = measured.to(kCpu);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += static_cast<double>(host.data<float>()[i]);
      }
      if (on_batch) on_batch(done + 1);
      ++done;
    }
  }
  return sum;
}

}  // namespace

std::string statistics_problem(const ExperimentConfig& config, const Registries& registries) {
  const ModelConfig& model = config.model;
  bool any = false;
  for (const NormConfig* norm : norms_of(model)) {
    if (!has_statistics(*norm, registries.norms)) continue;
    any = true;
    if (has_momentum(*norm, registries.norms)) continue;
    return cat("the running statistics of the normalizer ", norm->type, " cannot be measured");
  }
  if (!any) {
    return cat("the model has no running statistics that can be measured; its norm is ",
               model.norm.type,
               model.decoder_norm ? cat(", its decoder_norm ", model.decoder_norm->type) : "");
  }
  if (registries.tasks.at(config.task).schema.features_only) {
    return cat("the task ", config.task,
               " trains on views of images, so running statistics cannot be measured");
  }
  return "";
}

Tensor measure_statistics(const Tensor& weights, const ExperimentConfig& config, Device device,
                          const Registries& registries, std::int64_t batches,
                          const std::function<void(std::int64_t done)>& on_batch) {
  DTN_CHECK(batches > 0, "statistics of ", batches, " batches");
  if (const std::string problem = statistics_problem(config, registries); !problem.empty()) {
    throw ConfigError(problem);
  }
  const ExperimentConfig own = without_memory(config, registries.norms);
  const std::unique_ptr<Task> task = make_task({own, device, registries});
  ParameterStore& store = *task->stores().front().value;
  store.values().copy_from(weights.to(device));
  store.restart_buffers();
  const std::vector<double> sum = sum_statistics(*task, config, device, batches, on_batch);
  Tensor result = weights.clone();
  float* statistics = result.data<float>() + store.flat_size();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    statistics[i] = static_cast<float>(sum[i] / static_cast<double>(batches));
  }
  return result;
}

}  // namespace dtn
