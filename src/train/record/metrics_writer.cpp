#include "train/record/metrics_writer.h"

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "dtn/config/load.h"
#include "train/record/lambdas_writer.h"

namespace dtn {

// A run that starts in a folder without checkpoints drops the lines of an earlier attempt.
MetricsWriter::MetricsWriter(const std::filesystem::path& run, const RunProgress& progress,
                             const RunPeriods& periods)
    : periods_(periods),
      lines_(JsonLinesWriter::open_for_resume(
          run / "metrics.jsonl", progress.resumed_at.value_or(-1), progress.evaluated_step)),
      events_(run / "tensorboard", progress.resumed_at) {}

void MetricsWriter::step(std::int64_t step, const StepReport& report, double lr,
                         double samples_per_second) {
  JsonFields line = {{"step", step}, {"epoch", periods_.epoch_at(step)}};
  const auto add = [&](const std::string& name, double value) {
    line.emplace_back(name, value);
    events_.add_scalar("train/" + name, value, step);
  };
  add("loss", report.loss);
  add("lr", lr);
  add("grad_norm", report.grad_norm);
  add("images_per_second", samples_per_second);
  for (std::size_t i = 0; i < report.terms.size(); ++i) {
    const auto& [name, value] = report.terms[i];
    const bool has_samples = report.shares.empty() || report.shares[i] > 0;
    has_samples ? add(name, value) : void(line.emplace_back(name, value));  // null
  }
  for (const auto& [name, value] : report.scheduled) add(name, value);
  lines_.write(line);
  events_.flush();
}

void MetricsWriter::evaluation(std::int64_t step, const std::string& split,
                               const Evaluation& result) {
  JsonFields line = {{"step", step}, {"epoch", periods_.epoch_at(step)}, {"split", split}};
  for (const auto& [name, value] : result.metrics.values) {
    line.emplace_back(name, value);
    events_.add_scalar(cat(split, "/", name), value, step);
  }
  // Programs read the accuracy of any run. It is null for a task without one.
  const auto is_accuracy = [](const auto& figure) { return figure.first == "top1"; };
  if (std::ranges::none_of(result.metrics.values, is_accuracy)) {
    line.emplace_back("top1", std::numeric_limits<double>::quiet_NaN());
  }
  line.emplace_back("count", result.count);
  lines_.write(line);
  events_.flush();
}

// Adds the entries of a config, as numbers or bools if possible.
void MetricsWriter::hyperparameters(const ExperimentConfig& config) {
  std::vector<EventWriter::Hyperparameter> all;
  for (const auto& [key, text] : config_entries(config)) {
    if (const auto number = parse_number<double>(text)) {
      all.push_back({key, *number});
    } else if (text == "true" || text == "false") {
      all.push_back({key, text == "true"});
    } else {
      all.push_back({key, text});
    }
  }
  events_.add_hyperparameters(all);
}

void MetricsWriter::lambdas(std::int64_t step, const std::vector<LayerInfo>& layers,
                            ParameterStore& parameters) {
  const auto add = [&](const char* kind, const SiteLambdas& lambdas) {
    for (std::size_t l = 0; l < lambdas.size(); ++l) {
      for (std::size_t site = 0; site < lambdas[l].size(); ++site) {
        if (!lambdas[l][site]) continue;
        const std::vector<double>& heads = *lambdas[l][site];
        for (std::size_t h = 0; h < heads.size(); ++h) {
          events_.add_scalar(cat(kind, "/", layers[l].norms[site].path, "/head", h), heads[h],
                             step);
        }
      }
    }
  };
  add("lambda_mean", mean_lambdas(layers, parameters));
  add("lambda_var", var_lambdas(layers, parameters));
}

void MetricsWriter::histograms(std::int64_t step, ParameterStore& parameters,
                               double gradient_scale) {
  const Tensor values = parameters.values().to(kCpu);
  Tensor gradients = parameters.gradients().to(kCpu).clone();
  for (std::int64_t i = 0; i < gradients.numel(); ++i) {
    gradients.data<float>()[i] *= static_cast<float>(gradient_scale);
  }
  const auto add = [&](const std::string& name, const Tensor& flat, const Parameter& p) {
    events_.add_histogram(name, ParameterStore::view(flat, p).values<float>(), step);
  };
  for (const Parameter& p : parameters.parameters()) {
    add("weights/" + p.name, values, p);
    if (!p.frozen) add("gradients/" + p.name, gradients, p);
  }
}

}  // namespace dtn
