#include "apps/bench/trace_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

namespace dtn {
namespace {

std::string table_line(const KernelTotal& k, double all_us) {
  std::array<char, 200> text;
  std::snprintf(text.data(), text.size(), "%-44s %7lld %12.1f %10.2f %7.1f %%\n", k.name.c_str(),
                static_cast<long long>(k.calls), k.us,
                k.calls > 0 ? k.us / static_cast<double>(k.calls) : 0.0,
                all_us > 0 ? 100 * k.us / all_us : 0.0);
  return text.data();
}

}  // namespace

std::vector<KernelTotal> add_up(const std::vector<cuda::TimedLaunch>& launches) {
  std::map<std::string, KernelTotal> by_name;
  for (const cuda::TimedLaunch& launch : launches) {
    KernelTotal& total = by_name[launch.name];
    total.name = launch.name;
    ++total.calls;
    total.us += launch.microseconds;
  }
  std::vector<KernelTotal> totals;
  for (auto& [name, total] : by_name) totals.push_back(std::move(total));
  std::stable_sort(totals.begin(), totals.end(),
                   [](const KernelTotal& a, const KernelTotal& b) { return a.us > b.us; });
  return totals;
}

std::string trace_table(const std::vector<KernelTotal>& kernels, double step_us) {
  KernelTotal all{"all"};
  for (const KernelTotal& k : kernels) {
    all.calls += k.calls;
    all.us += k.us;
  }
  std::array<char, 200> text;
  std::snprintf(text.data(), text.size(), "%-44s %7s %12s %10s %9s\n", "kernel", "calls",
                "total us", "mean us", "share");
  std::string table = text.data();
  for (const KernelTotal& k : kernels) table += table_line(k, all.us);
  table += table_line(all, all.us);
  std::snprintf(text.data(), text.size(), "gaps: %.1f us of a step of %.1f us (%.1f %%)\n",
                step_us - all.us, step_us, step_us > 0 ? 100 * (step_us - all.us) / step_us : 0.0);
  return table + text.data();
}

}  // namespace dtn
