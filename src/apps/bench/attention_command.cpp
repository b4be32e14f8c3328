#include "apps/bench/attention_command.h"

#include "apps/common/program.h"
#include "apps/common/sizes.h"

namespace dtn::app {

void AttentionBenchCommand::add_to(CLI::App& app) {
  app.add_option("--kind", options.kind, "dense, bigbird or reformer")
      ->check(CLI::IsMember({"dense", "bigbird", "reformer"}))
      ->capture_default_str();
  app.add_option("--shape", shape, "B,T,C of the output")->capture_default_str();
  app.add_option("--heads", options.heads, "heads H, must divide C")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--variant", variant, "variant of bigbird and reformer: clean or lra")
      ->check(CLI::IsMember({"clean", "lra"}))
      ->capture_default_str();
  app.add_option("--length", options.length,
                 "tokens of each sample that are not padding (default: all)")
      ->check(positive());
  app.add_option("--dropout", options.dropout,
                 "dropout probability of the weights of dense attention")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
}

nlohmann::ordered_json AttentionBenchCommand::result(DType dtype, int steps, Device device) const {
  AttentionBenchmarkOptions o = options;
  const auto [batch, tokens, channels] = parse_sizes<3>("--shape", shape, "B,T,C, like 8,2001,512");
  o.batch = batch, o.tokens = tokens, o.channels = channels;
  if (device != kCpu)
    throw ConfigError("dtn-bench attention measures only the CPU; use --device cpu");
  if (channels % o.heads != 0) {
    throw ConfigError(cat("--heads ", o.heads, " does not divide the ", channels, " channels"));
  }
  if (o.length > tokens) {
    throw ConfigError(cat("--length ", o.length, " is more than the ", tokens, " tokens"));
  }
  o.dtype = dtype, o.steps = steps;
  o.variant = variant == "lra" ? ops::SparseVariant::kLra : ops::SparseVariant::kClean;
  const AttentionBenchmark b = benchmark_attention(o);
  nlohmann::ordered_json json = {{"forward_ms", b.forward_ms}, {"backward_ms", b.backward_ms}};
  json["dense_forward_ms"] = b.dense_forward_ms;
  json["dense_backward_ms"] = b.dense_backward_ms;
  json["times_faster"] =
      (b.dense_forward_ms + b.dense_backward_ms) / (b.forward_ms + b.backward_ms);
  json["gemm_gflops"] = b.gemm_gflops;
  if (b.gflops > 0) {
    json["gflops"] = b.gflops;
    json["fraction_of_gemm"] = b.gflops / b.gemm_gflops;
  }
  return json;
}

}  // namespace dtn::app
