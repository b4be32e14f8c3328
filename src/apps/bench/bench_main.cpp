#include "dtn/app/programs.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/attention_command.h"
#include "apps/bench/benchmark.h"
#include "apps/bench/benchmark_kernels.h"
#include "apps/bench/norm_probe.h"
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
  KernelBenchmarkOptions kernels;
  std::int64_t working_set_mib = kernels.working_set >> 20;
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

// Formats a number for people, with the unit that its name implies.
std::string readable(const std::string& name, const Json& value) {
  if (!value.is_number()) return value.dump();
  constexpr std::pair<const char*, const char*> kUnits[] = {
      {"gbytes_per_second", " GB/s"}, {"images_per_second", " images/s"},
      {"_per_second", "/s"},          {"gflops_per_image", " GFLOP"},
      {"gflops", " GFLOP/s"},         {"_ms", " ms"}};
  const double number = value.get<double>();
  if (name.ends_with("bytes")) return format("%.1f MiB", number / 1048576);
  if (name == "mfu" || name.starts_with("fraction")) return format("%.1f %%", 100 * number);
  const char* unit = "";
  for (const auto& [ending, text] : kUnits) {
    if (name.ends_with(ending)) {
      unit = text;
      break;
    }
  }
  if (value.is_number_integer()) return value.dump() + unit;
  const int decimals = number >= 1000 ? 0 : number >= 10 ? 1 : 3;
  return format("%.*f", decimals, number) + unit;
}

// Prints one object per measurement: JSON on one line, or a column of names and values.
int print_result(const BenchCommand& options, const Json& result) {
  if (options.json) {
    std::printf("%s\n", result.dump().c_str());
    return kExitDone;
  }
  for (const auto& [key, value] : result.items()) {
    std::printf("%-26s %s\n", key.c_str(), readable(key, value).c_str());
  }
  return kExitDone;
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
  TrainBenchmark b =
      benchmark_train(load(options), run, options.device, job().get(), options.registries);
  if (!b.kernels.empty()) {
    std::fputs(trace_table(b.kernels, 1e3 * b.step_ms).c_str(), stderr);
  } else if (run.trace && job()->is_root()) {
    std::fputs("DTN_CUDA_TRACE works only in a single process with --device cuda\n", stderr);
  }
  Json json = {{"images_per_second", b.images_per_second},
               {"step_ms", b.step_ms},
               {"gflops_per_image", b.gflops_per_image},
               {"gemm_gflops", b.gemm_gflops},
               {"mfu", b.mfu},
               {"peak_bytes", b.peak_bytes},
               {"allocator_misses", b.allocator_misses}};
  if (b.processes > 1) {
    json["processes"] = b.processes;
    json["communication_ms"] = b.communication_ms;
    json["communication_waited_ms"] = b.communication_waited_ms;
    json["communication_share"] = b.communication_waited_ms / b.step_ms;
    json["communication_bytes"] = b.communication_bytes;
  }
  return json;
}

Json eval_json(const BenchCommand& options) {
  EvalBenchmark b =
      benchmark_eval(load(options), steps_of(options), options.device, options.registries);
  return {{"images_per_second", b.images_per_second},
          {"gflops_per_image", b.gflops_per_image},
          {"gemm_gflops", b.gemm_gflops},
          {"mfu", b.mfu},
          {"peak_bytes", b.peak_bytes}};
}

Json data_json(const BenchCommand& options) {
  DataBenchmark b = benchmark_data(load(options), options.seconds,
                                   options.eval ? Split::kVal : Split::kTrain, options.registries);
  return {{"images_per_second", b.images_per_second},
          {"images", b.images},
          {"bad_images", b.bad_images},
          {"read_us", b.read_us},
          {"decode_us", b.decode_us},
          {"resize_us", b.resize_us},
          {"augment_us", b.augment_us},
          {"normalize_us", b.normalize_us}};
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
  std::array<double, 3> weights;
  const char* at = options.positions.data();
  const char* end = at + options.positions.size();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto [stop, error] = std::from_chars(at, end, weights[i]);
    const bool last = i + 1 == weights.size();
    if (error != std::errc() || (last ? stop != end : stop == end || *stop != ',')) {
      throw ConfigError(cat("--positions ", options.positions, ": write X,Y,D, like 0,0,-0.25"));
    }
    at = stop + 1;
  }
  return weights;
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
  NormBenchmark b = benchmark_norm(norm, input, dtype_of(options.dtype), options.steps,
                                   options.device, options.registries.norms);
  Json json = {{"forward_ms", b.forward_ms}, {"backward_ms", b.backward_ms}};
  json["gemm_gflops"] = b.gemm_gflops;
  if (b.copy_gbytes_per_second > 0) {
    json["copy_gbytes_per_second"] = b.copy_gbytes_per_second;
    json["forward_of_copy"] = b.forward_of_copy;
  }
  if (b.multiply_adds_per_element > 0) {
    json["multiply_adds_per_element"] = b.multiply_adds_per_element;
    json["gflops"] = b.gflops;
    json["fraction_of_gemm"] = b.gflops / b.gemm_gflops;
  }
  return json;
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

Json kernel_json(const KernelTime& k) {
  if (!k.error.empty()) return {{"kernel", k.kernel}, {"error", k.error}};
  return {{"kernel", k.kernel}, {"shape", k.shape},       {"us", k.us},      {"bytes", k.bytes},
          {"flops", k.flops},   {"floor_us", k.floor_us}, {"ratio", k.ratio}};
}

// Prints a line of the table, and the heading before the first line.
void print_kernel(const KernelTime& k, bool first) {
  if (first) {
    std::printf("%-20s %-22s %11s %10s %10s %11s %7s\n", "kernel", "shape", "us", "MB", "GFLOP",
                "floor us", "ratio");
  }
  if (!k.error.empty()) {
    std::printf("%-20s %s\n", k.kernel.c_str(), k.error.c_str());
  } else {
    std::printf("%-20s %-22s %11.2f %10.3f %10.3f %11.2f %7.2f\n", k.kernel.c_str(),
                k.shape.c_str(), k.us, k.bytes / 1e6, k.flops / 1e9, k.floor_us, k.ratio);
  }
}

// Prints a line for each kernel as soon as it is measured, then the reference rates of the machine.
int bench_kernels(const BenchCommand& options) {
  KernelBenchmarkOptions run = options.kernels;
  run.steps = options.steps;
  run.working_set = options.working_set_mib << 20;
  run.cube = options.cube;
  bool first = true;
  const auto report = [&](const KernelTime& k) {
    if (options.json) {
      std::printf("%s\n", kernel_json(k).dump().c_str());
    } else {
      print_kernel(k, first);
    }
    first = false;
    std::fflush(stdout);
  };
  const KernelBenchmark b = benchmark_kernels(load(options), run, options.device, report);
  print_result(options, {{"copy_gbytes_per_second", b.copy_gbytes_per_second},
                         {"gemm_gflops", b.gemm_gflops},
                         {"kernels", b.kernels}});
  return b.failed == 0 ? kExitDone : kExitFailed;
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
  app.add_option("--steps", options.steps, "number of timed steps; the result is their median")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "number of steps before the timed ones")
      ->check(non_negative())
      ->capture_default_str();
}

void add_timed(CLI::App& app, BenchCommand& options) {
  app.add_option("--steps", options.steps, "number of timed runs; the result is their median")
      ->check(positive())
      ->capture_default_str();
}

void add_kernels(CLI::App& app, BenchCommand& options) {
  KernelBenchmarkOptions& o = options.kernels;
  app.add_option("--only", o.only, "kernels whose names contain this text (default: all)");
  app.add_option("--steps", options.steps,
                 "number of timed replays of a kernel's graph; the result is their median")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--launches", o.launches, "minimum number of launches in a graph")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--working-set", options.working_set_mib,
                 "MiB of inputs and outputs that the launches cycle through, to exceed the cache; "
                 "0: all launches use the same")
      ->check(non_negative())
      ->capture_default_str();
}

void add_cube(CLI::App& app, BenchCommand& options) {
  app.add_option("--cube", options.cube,
                 "size of the cubic matrix product among the products that determine the ceiling "
                 "(default: 2048, on a CUDA device 8192)")
      ->check(positive());
}

void add_dtype(CLI::App& app, BenchCommand& options) {
  app.add_option("--dtype", options.dtype, "fp32, bf16 or fp64")
      ->check(CLI::IsMember({"fp32", "bf16", "fp64"}))
      ->capture_default_str();
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
  add_kernels(*kernels, options);
  options.products.add_to(*products);
  options.attention.add_to(*attention);
  add_timed(*attention, options);
  for (CLI::App* sub : {train, eval}) add_steps(*sub, options);
  data->add_option("--seconds", options.seconds, "how long to measure")
      ->check(positive())
      ->capture_default_str();
  data->add_flag("--eval", options.eval,
                 "measure the validation images, prepared as for evaluation");
  norm->add_option("--type", options.type, "normalizer, see dtn-info --norms")
      ->capture_default_str();
  norm->add_option("--shape", options.shape,
                   "B,T,C of the input; with norm.prefix=ln, the tokens of T beyond a square grid "
                   "are prefix tokens")
      ->capture_default_str();
  norm->add_option("--heads", options.heads, "heads H, must divide C")
      ->check(positive())
      ->capture_default_str();
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
    if (*kernels) return bench_kernels(options);
    if (*products) {
      return options.products.run(load(options), options.device, options.json, options.registries);
    }
    Json result = *train       ? train_json(options)
                  : *eval      ? eval_json(options)
                  : *data      ? data_json(options)
                  : *norm      ? norm_json(options)
                  : *attention ? options.attention.result(dtype_of(options.dtype), options.steps,
                                                          options.device)
                               : gemm_json(options);
    return ranks.is_root() ? print_result(options, result) : kExitDone;
  });
}

}  // namespace dtn::app
