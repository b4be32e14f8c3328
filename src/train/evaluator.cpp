#include "train/evaluator.h"

#include <chrono>

#include "core/seconds_since.h"

namespace dtn {
namespace {

Fields on_host(const Fields& fields) {
  Fields host;
  for (const auto& [name, tensor] : fields) {
    if (tensor.defined()) host[name] = tensor.to(kCpu);
  }
  return host;
}

// Returns the fields of a batch for a meter: the host fields and the indices.
Fields with_indices(const DeviceBatch& batch) {
  Fields fields = batch.host;
  fields["index"] = Tensor::from(batch.indices, {batch.n});
  return fields;
}

// Runs all batches of an epoch of this rank and calls `use` with each and its outputs. Returns
// false if the evaluation was stopped.
bool run_all(Task& task, BatchFeeder& feeder, const EvalOptions& options,
             const std::function<void(const DeviceBatch&, const Fields& outputs)>& use) {
  DeviceBatch batch;
  feeder.start(0);
  // A rank may have no rows in the last batch. It still takes part in the calls of all ranks.
  const std::int64_t batches = feeder.batches_per_epoch();
  for (std::int64_t i = 0; i < batches; ++i) {
    bool stop = options.stop && options.stop();
    if (options.ranks) stop = options.ranks->any(stop);
    if (stop) return false;
    if (!feeder.next(batch)) continue;
    Context ctx;
    ctx.mode.compute = options.compute;
    ctx.mode.skip_unread = !options.observer;
    ctx.observer = options.observer;
    use(batch, on_host(task.outputs(ctx, batch.fields)));
  }
  return true;
}

}  // namespace

std::optional<Evaluation> evaluate(Task& task, BatchFeeder& feeder, const EvalOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Meter> own;
  Meter* meter = options.meter;
  if (!meter) meter = (own = task.meter()).get();
  if (options.compute == DType::kBFloat16) {
    for (const Named<ParameterStore*>& store : task.stores()) store.value->enable_bfloat16();
  }
  std::int64_t done = 0;
  const auto add_reference = [&](const DeviceBatch& batch, const Fields& outputs) {
    meter->add_reference(with_indices(batch), outputs);
    done += batch.n;
    if (options.on_reference) options.on_reference(done);
  };
  if (options.references && !run_all(task, *options.references, options, add_reference)) {
    return std::nullopt;
  }
  done = 0;
  const auto add = [&](const DeviceBatch& batch, const Fields& outputs) {
    meter->add(with_indices(batch), outputs);
    done += batch.n;
    if (options.on_batch) options.on_batch(batch, outputs, done);
  };
  if (!run_all(task, feeder, options, add)) return std::nullopt;
  if (options.ranks) {
    meter->merge(*options.ranks);
    done = options.ranks->sum(done);
  }
  // Some meters compute in result().
  const Metrics metrics = meter->result();
  return Evaluation{metrics, done, seconds_since(start), options.compute};
}

}  // namespace dtn
