#include "dtn/core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

namespace dtn {
namespace {

spdlog::logger& logger() {
  static auto instance = [] {
    auto l = spdlog::stderr_color_mt("dtn");
    l->set_pattern("%^[%H:%M:%S] %v%$");
    return l;
  }();
  return *instance;
}

}  // namespace

void log_info(std::string_view message) { logger().info(message); }
void log_warn(std::string_view message) { logger().warn("warning: {}", message); }
void log_error(std::string_view message) { logger().error("error: {}", message); }

void log_as_rank(int rank) {
  if (rank == 0) return;
  logger().set_level(spdlog::level::warn);
  logger().set_pattern("%^[%H:%M:%S] rank " + std::to_string(rank) + ": %v%$");
}

}  // namespace dtn
