#include "dtn/app/bench_main.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/attention_command.h"
#include "apps/bench/benchmark.h"
#include "apps/bench/kernels_command.h"
#include "apps/bench/products_command.h"
#include "apps/common/program.h"
#include "apps/common/sizes.h"
#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "kernels/gemm/gemm.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

struct BenchCommand {
  explicit BenchCommand(const Registries& offered) : registries(offered) {}

  const Registries& registries;
  std::string config, type = "dtn", dtype = "fp32", shape = "16,196,432";
  std::vector<std::string> overrides;
  int steps = 20, warmup = 3, heads = 9;
  std::string inputs, save, grid, positions;
  AttentionBenchCommand attention;
  ProductsBenchCommand products;
  KernelsBenchCommand kernels;
  std::int64_t cube = 0;
  double seconds = 10;
  bool json = false, eval = false;
  MachineOptions machine;
  Device device;
};

ExperimentConfig load(const BenchCommand& options) {
  const ConfigSchemas schemas = options.registries.schemas();
  return load_experiment(find_config(options.config, schemas), options.overrides, schemas);
}

DType dtype_of(const std::string& name) {
  return name == "bf16" ? DType::kBFloat16 : name == "fp64" ? DType::kFloat64 : DType::kFloat32;
}

StepsToTime steps_of(const BenchCommand& options) {
  return {options.steps, options.warmup, options.cube, false};
}

// True if the environment sets DTN_CUDA_TRACE=1.
bool trace_wanted() {
  const char* text = std::getenv("DTN_CUDA_TRACE");
  return text && std::strcmp(text, "1") == 0;
}

Json train_json(const BenchCommand& options) {
  StepsToTime run = steps_of(options);
  run.trace = trace_wanted();
  std::vector<KernelTotal> kernels;
  Json json =
      benchmark_train(load(options), run, options.device, *job(), options.registries, kernels);
  if (!kernels.empty()) {
    std::fputs(trace_table(kernels, 1e3 * json["step_ms"].get<double>()).c_str(), stderr);
  } else if (run.trace && job()->is_root()) {
    std::fputs("DTN_CUDA_TRACE works only in a single process with --device cuda\n", stderr);
  }
  return json;
}

// Reads the norm options with the loader that reads model.norm in a config.
NormConfig norm_config(const BenchCommand& options, std::int64_t channels, const TokenGrid& grid) {
  if (channels % options.heads != 0) {
    throw ConfigError(
        cat("--heads ", options.heads, " does not divide the ", channels, " channels"));
  }
  std::vector<std::string> overrides = {
      "model.norm.type=" + options.type,
      cat("model.embed_dim=", channels),
      cat("model.num_heads=", options.heads),
      // A square grid, whose side is divisible by all common divisors of the given grid's sides. A
      // sequence may be longer than the largest allowed image.
      "model.patch_size=1",
      cat("model.image_size=", std::gcd(grid.height, grid.width)),
  };
  const NormRegistry& norms = options.registries.norms;
  const NormEntry* entry = norms.find(options.type);
  if (entry && entry->schema.reads_condition) {
    overrides.push_back("model.condition.from=vector");
    overrides.push_back(cat("model.condition.size=", channels));
  }
  for (const std::string& o : options.overrides) overrides.push_back("model." + o);
  return parse_experiment("model: {preset: vit_t}\nschedule: {steps: 1}\n", "dtn-bench", overrides,
                          options.registries.schemas())
      .model.norm;
}

std::optional<TokenGrid> given_grid(const BenchCommand& options) {
  if (options.grid.empty()) return std::nullopt;
  auto [height, width] = parse_sizes<2>("--grid", options.grid, "H,W, like 14,14");
  return TokenGrid{height, width};
}

std::optional<std::array<double, 3>> given_positions(const BenchCommand& options) {
  if (options.positions.empty()) return std::nullopt;
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return parse_numbers<double, 3>("--positions", options.positions, "X,Y,D, like 0,0,-0.25", -kAny,
                                  kAny);
}

// Runs a normalizer once on the tensors of a file and saves the results.
Json probe_json(const BenchCommand& options) {
  if (options.save.empty()) throw ConfigError("--inputs needs --save FILE for the results");
  NamedTensors inputs = read_safetensors(options.inputs).tensors;
  Tensor x;
  for (const auto& [name, tensor] : inputs) {
    if (name == "x" && tensor.rank() == 3) x = tensor;
  }
  if (!x.defined()) throw DataError(options.inputs + ": there is no tensor x [B, T, C]");
  const TokenGrid grid = given_grid(options).value_or(square_or_sequence(x.dim(1)));
  NormConfig norm = norm_config(options, x.dim(2), grid);
  NormProbe probe{norm,
                  options.heads,
                  grid,
                  norm.eps.value_or(kDefaultNormEps),
                  dtype_of(options.dtype),
                  !options.eval};
  NamedTensors results = probe_norm(probe, inputs, options.device, options.registries.norms);
  write_safetensors(options.save, results, {});
  Json names = Json::array();
  for (const auto& [name, tensor] : results) names.push_back(name);
  return {{"saved", names}};
}

Json norm_json(const BenchCommand& options) {
  if (!options.inputs.empty()) return probe_json(options);
  auto [batch, tokens, channels] =
      parse_sizes<3>("--shape", options.shape, "B,T,C, like 16,196,432");
  const std::optional<TokenGrid> grid = given_grid(options);
  const NormConfig norm = norm_config(options, channels, grid.value_or(square_or_sequence(tokens)));
  const NormInput input{batch, tokens, channels, options.heads, grid, given_positions(options)};
  return benchmark_norm(norm, input, dtype_of(options.dtype), options.steps, options.device,
                        options.registries.norms);
}

Json gemm_json(const BenchCommand& options) {
  DType dtype = dtype_of(options.dtype);
  ExperimentConfig config = load(options);
  Json json = {{"dtype", name_of(dtype)},
               {"backend", options.device == kCpu ? gemm_backend(dtype) : "cublaslt"}};
  auto rates =
      measure_gemms(config.model, config.train.micro_batch.value_or(config.train.batch_size), dtype,
                    options.device, options.cube);
  for (const GemmRate& r : rates) json[r.name] = r.gflops;
  json["gemm_gflops"] = best_rate(rates);
  return json;
}

void add_bench_options(CLI::App& app, BenchCommand& options) {
  app.add_flag("--json", options.json, "print each JSON object on one line");
  add_overrides(app, options.overrides, "override one key (repeatable)");
  options.machine.add_to(app);
}

void add_config(CLI::App& app, BenchCommand& options) {
  app.add_option("--config,config", options.config, "config file or name")->required();
}

void add_steps(CLI::App& app, BenchCommand& options) {
  add_count(app, "--steps", options.steps, "number of timed steps; the result is their median");
  add_defaulted(app, "--warmup", options.warmup, "number of steps before the timed ones")
      ->check(non_negative());
}

void add_timed(CLI::App& app, BenchCommand& options) {
  add_count(app, "--steps", options.steps, "number of timed runs; the result is their median");
}

void add_cube(CLI::App& app, BenchCommand& options) {
  app.add_option("--cube", options.cube,
                 "size of the cubic matrix product among the products that determine the ceiling "
                 "(default: 2048, on a CUDA device 8192)")
      ->check(positive());
}

void add_dtype(CLI::App& app, BenchCommand& options) {
  add_choice(app, "--dtype", options.dtype, {"fp32", "bf16", "fp64"}, "fp32, bf16 or fp64");
}

}  // namespace

int bench_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{"Measures speed on this machine.", "dtn-bench"};
  app.require_subcommand(1);
  BenchCommand options(registries);
  CLI::App* train = app.add_subcommand("train", "training steps on random images");
  train->footer(
      "With DTN_CUDA_TRACE=1 in the environment and --device cuda, one more step runs kernel by\n"
      "kernel, and a table of the kernels and their times goes to stderr.");
  CLI::App* eval = app.add_subcommand("eval", "forward passes on random images");
  CLI::App* data = app.add_subcommand("data", "decoding and augmentation of a data set");
  CLI::App* norm = app.add_subcommand("norm", "one normalizer, forward and backward");
  CLI::App* attention =
      app.add_subcommand("attention", "attention over sequences, compared with dense attention");
  CLI::App* gemm = app.add_subcommand("gemm", "matrix products of a model's linear layers");
  CLI::App* kernels = app.add_subcommand(
      "kernels",
      "each kernel of a model's training step, compared with the time of its copies and products");
  CLI::App* products = app.add_subcommand(
      "products", "each matrix product of a model's training step, with every algorithm for it");
  for (CLI::App* sub : {train, eval, data, norm, attention, gemm, kernels, products}) {
    add_bench_options(*sub, options);
  }
  for (CLI::App* sub : {train, eval, data, gemm, kernels, products}) add_config(*sub, options);
  for (CLI::App* sub : {train, eval, gemm, kernels}) add_cube(*sub, options);
  options.kernels.add_to(*kernels);
  options.products.add_to(*products);
  options.attention.add_to(*attention);
  add_timed(*attention, options);
  for (CLI::App* sub : {train, eval}) add_steps(*sub, options);
  add_count(*data, "--seconds", options.seconds, "how long to measure");
  data->add_flag("--eval", options.eval,
                 "measure the validation images, prepared as for evaluation");
  add_defaulted(*norm, "--type", options.type, "normalizer, see dtn-info --norms");
  add_defaulted(*norm, "--shape", options.shape,
                "B,T,C of the input; with norm.prefix=ln, the tokens of T beyond a square grid "
                "are prefix tokens");
  add_count(*norm, "--heads", options.heads, "heads H, must divide C");
  add_timed(*norm, options);
  CLI::Option* inputs = norm->add_option(
      "--inputs", options.inputs,
      "run once on the tensors x, dy [B,T,C] and parameters of this safetensors file "
      "instead of measuring");
  norm->add_option("--save", options.save, "with --inputs: file for y, dx and d<parameter>")
      ->needs(inputs);
  norm->add_option("--grid", options.grid,
                   "H,W of the token grid (default: a square if T is one, else the sequence 1,T)");
  norm->add_option("--positions", options.positions,
                   "weights X,Y,D of the relative positions of all heads, instead of the initial "
                   "ones; D is the weight of the squared distance")
      ->excludes(inputs);
  norm->add_flag("--eval", options.eval, "with --inputs: use running statistics")->needs(inputs);
  for (CLI::App* sub : {norm, attention, gemm}) add_dtype(*sub, options);
  return run_program(app, argc, argv, Processes::kSeveral, [&] {
    options.device = options.machine.apply();
    const Communicator& ranks = *job();
    if (!ranks.is_single() && !*train) {
      throw ConfigError("only dtn-bench train works in several processes");
    }
    if (*kernels) {
      return options.kernels.run(load(options), options.device, options.json, options.cube);
    }
    if (*products) {
      return options.products.run(load(options), options.device, options.json, options.registries);
    }
    Json result =
        *train ? train_json(options)
        : *eval
            ? benchmark_eval(load(options), steps_of(options), options.device, options.registries)
        : *data ? benchmark_data(load(options), options.seconds,
                                 options.eval ? Split::kVal : Split::kTrain, options.registries)
        : *norm ? norm_json(options)
        : *attention
            ? options.attention.result(dtype_of(options.dtype), options.steps, options.device)
            : gemm_json(options);
    if (ranks.is_root()) print_result(result, options.json);
    return static_cast<int>(kExitDone);
  });
}

}  // namespace dtn::app
