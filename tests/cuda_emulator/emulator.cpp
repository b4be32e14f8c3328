#include "emulator.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "device_model.h"
#include "dtn/core/check.h"
#include "dtn/core/denormals.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emu {
namespace {

const char* name_of(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash ? slash + 1 : file;
}

enum class State { kReady, kAtBlockBarrier, kAtWarpMeeting, kDone };

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr int kWarp = 32;

#if defined(__x86_64__)
// Saves the registers a call must preserve on the current stack, leaves its pointer in *from, and
// goes on where the stack `to` was left.
extern "C" void dtn_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl dtn_emulator_switch
.type dtn_emulator_switch, @function
dtn_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dtn_emulator_switch, .-dtn_emulator_switch
)");

class Context {
 public:
  void prepare(char* stack, void (*entry)()) {
    auto top = reinterpret_cast<std::uintptr_t>(stack + kStackBytes) & ~std::uintptr_t{15};
    auto* p = reinterpret_cast<void**>(top);
    *--p = nullptr;  // what entry would return to; it never does
    *--p = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--p = nullptr;
    pointer_ = p;
  }
  static void go(Context& from, Context& to) { dtn_emulator_switch(&from.pointer_, to.pointer_); }

 private:
  void* pointer_ = nullptr;
};
#else
class Context {
 public:
  void prepare(char* stack, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  static void go(Context& from, Context& to) { swapcontext(&from.context_, &to.context_); }

 private:
  ucontext_t context_;
};
#endif

struct Fiber {
  Context context;
  std::unique_ptr<char[]> stack;
  uint3 index{};
  State state = State::kReady;
  const char* meeting = nullptr;  // which operation the warp meets for
  const void* published = nullptr;
};

struct Block {
  std::vector<Fiber> fibers;
  int count = 0;  // threads in use
  Context scheduler;
  int current = -1;
  uint3 index{};
  dim3 extent, grid;
  const std::function<void()>* kernel = nullptr;
  std::unique_ptr<std::byte[]> shared;
  std::string error;
};

thread_local Block* block = nullptr;

unsigned schedule_seed = 0;
std::mutex sites_mutex;
std::vector<BarrierSite> sites;
std::atomic<unsigned> sites_taken{0};
std::atomic<const BarrierSite*> removed{nullptr};
BarrierSite removed_site{};

Fiber& fiber() { return block->fibers[static_cast<std::size_t>(block->current)]; }

void yield(State state) {
  Fiber& f = fiber();
  f.state = state;
  Context::go(f.context, block->scheduler);
}

void fiber_main() {
  try {
    (*block->kernel)();
  } catch (const std::exception& e) {
    block->error = e.what();
  }
  yield(State::kDone);
  std::abort();  // a finished fiber is not resumed
}

class Scheduler {
 public:
  Scheduler(Block& b, unsigned seed) : b_(b), random_(seed), in_step_(seed == 0) {
    for (int w = 0; w * kWarp < b.count; ++w) warps_.push_back(w);
    lanes_.resize(kWarp);
    std::iota(lanes_.begin(), lanes_.end(), 0);
  }

  // Until every thread is done, or nothing can move.
  void run() {
    for (;;) {
      if (!in_step_) std::shuffle(warps_.begin(), warps_.end(), random_);
      bool moved = false;
      for (int w : warps_) {
        while (run_lanes(w)) {
          moved = true;
          release_meeting(w);
          if (!b_.error.empty()) return;
          if (in_step_) break;
        }
      }
      if (moved) continue;
      if (all_in(State::kDone)) return;
      if (!release_block()) {
        b_.error = "the threads of a block wait for each other at different places for ever";
        return;
      }
    }
  }

 private:
  int first(int w) const { return w * kWarp; }
  int last(int w) const { return std::min(b_.count, (w + 1) * kWarp); }
  Fiber& at(int i) { return b_.fibers[static_cast<std::size_t>(i)]; }

  bool run_lanes(int w) {
    if (!in_step_) std::shuffle(lanes_.begin(), lanes_.end(), random_);
    bool ran = false;
    for (int lane : lanes_) {
      int i = first(w) + lane;
      if (i >= last(w) || at(i).state != State::kReady) continue;
      b_.current = i;
      Context::go(b_.scheduler, at(i).context);
      ran = true;
    }
    return ran;
  }

  // A meeting is over when every lane that still runs has come to it.
  void release_meeting(int w) {
    const char* what = nullptr;
    for (int i = first(w); i < last(w); ++i) {
      Fiber& f = at(i);
      if (f.state == State::kDone) {
        // A lane that has left cannot take part in what the others do together.
        continue;
      }
      if (f.state != State::kAtWarpMeeting) return;
      if (what && what != f.meeting && std::strcmp(what, f.meeting) != 0) {
        b_.error = std::string("lanes of one warp meet for different things: ") + what + " and " +
                   f.meeting;
        return;
      }
      what = f.meeting;
    }
    if (!what) return;
    for (int i = first(w); i < last(w); ++i) {
      if (at(i).state == State::kDone) {
        b_.error = std::string("a lane has left the kernel while its warp meets for ") + what;
        return;
      }
      at(i).state = State::kReady;
    }
  }

  bool all_in(State state) const {
    return std::all_of(b_.fibers.begin(), b_.fibers.begin() + b_.count,
                       [&](const Fiber& f) { return f.state == state; });
  }

  // The block's barrier opens when every thread that has not left waits at it.
  bool release_block() {
    for (int i = 0; i < b_.count; ++i) {
      if (at(i).state == State::kAtWarpMeeting) return false;
    }
    for (int i = 0; i < b_.count; ++i) {
      if (at(i).state == State::kAtBlockBarrier) at(i).state = State::kReady;
    }
    return true;
  }

  Block& b_;
  std::mt19937 random_;
  bool in_step_;
  std::vector<int> warps_, lanes_;
};

void run_block(Block& b, unsigned seed, std::size_t shared_bytes) {
  block = &b;
  b.count = static_cast<int>(b.extent.x * b.extent.y * b.extent.z);
  if (static_cast<int>(b.fibers.size()) < b.count) {
    b.fibers.resize(static_cast<std::size_t>(b.count));
  }
  // A block of its own, exactly as long as asked for, so that AddressSanitizer sees its end.
  // All ones are NaN in every float type.
  b.shared.reset(new std::byte[shared_bytes]);
  std::memset(b.shared.get(), 0xff, shared_bytes);
  for (int i = 0; i < b.count; ++i) {
    Fiber& f = b.fibers[static_cast<std::size_t>(i)];
    auto n = static_cast<unsigned>(i);
    f.index = {n % b.extent.x, n / b.extent.x % b.extent.y, n / (b.extent.x * b.extent.y)};
    f.state = State::kReady;
    if (!f.stack) f.stack.reset(new char[kStackBytes]);
    f.context.prepare(f.stack.get(), fiber_main);
  }
  Scheduler(b, seed).run();
  block = nullptr;
}

}  // namespace

bool BarrierSite::operator==(const BarrierSite& other) const {
  return line == other.line && std::strcmp(name_of(file), name_of(other.file)) == 0;
}

void set_schedule(Schedule schedule) { schedule_seed = schedule.seed; }

std::vector<BarrierSite> take_barrier_sites() {
  std::lock_guard lock(sites_mutex);
  ++sites_taken;
  return std::exchange(sites, {});
}

void remove_barrier(const BarrierSite& site) {
  removed_site = site;
  removed = &removed_site;
}
void clear_faults() { removed = nullptr; }

std::string run_kernel(dim3 grid, dim3 extent, std::size_t shared_bytes,
                       const std::function<void()>& kernel) {
  if (extent.x * extent.y * extent.z > 1024) return "a block has more than 1024 threads";
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "the grid is empty";
  if (grid.y > 65535 || grid.z > 65535) return "the grid is larger than 65535 in y or z";
  if (shared_bytes > device_model().shared_memory) {
    return dtn::cat("a block asks for ", shared_bytes, " bytes of shared memory and may have ",
                    device_model().shared_memory);
  }
  auto blocks = static_cast<std::int64_t>(grid.x) * grid.y * grid.z;
  std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  unsigned seed = schedule_seed;
  if (seed) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::string error;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t n = 0; n < blocks; ++n) {
    static thread_local Block b;
    dtn::FlushDenormals flush;  // the library is compiled for the device with -ftz=true
    auto i = static_cast<unsigned>(order[static_cast<std::size_t>(n)]);
    b.index = {i % grid.x, i / grid.x % grid.y, i / (grid.x * grid.y)};
    b.extent = extent;
    b.grid = grid;
    b.kernel = &kernel;
    b.error.clear();
    run_block(b, seed ? seed + i * 7919u : 0, shared_bytes);
    if (!b.error.empty()) {
#pragma omp critical(dtn_emulator_error)
      error = b.error;
    }
  }
  return error;
}

const uint3& thread_index() { return fiber().index; }
const uint3& block_index() { return block->index; }
const dim3& block_extent() { return block->extent; }
const dim3& grid_extent() { return block->grid; }
void* shared_memory() { return block->shared.get(); }
int lane() { return block->current % kWarp; }

namespace {
// Notes the site; true when it has been removed.
bool pass_site(const char* file, int line) {
  BarrierSite site{file, line};
  {
    // Sites are few and literals: the last one is nearly always the same.
    static thread_local BarrierSite last{"", 0};
    static thread_local unsigned seen = 0;
    if (last.line != line || last.file != file || seen != sites_taken) {
      last = site;
      seen = sites_taken;
      std::lock_guard lock(sites_mutex);
      if (std::find(sites.begin(), sites.end(), site) == sites.end()) sites.push_back(site);
    }
  }
  const BarrierSite* gone = removed.load(std::memory_order_relaxed);
  return gone && *gone == site;
}

// The faults and reports that the environment asks for.
struct FromEnvironment {
  std::string file;

  FromEnvironment() {
    const char* text = std::getenv("DTN_EMULATOR_REMOVE");
    if (!text) return;
    file = text;
    std::size_t colon = file.rfind(':');
    int line = std::atoi(file.c_str() + colon + 1);
    file.resize(colon);
    remove_barrier({file.c_str(), line});
  }
  ~FromEnvironment() {
    const char* path = std::getenv("DTN_EMULATOR_SITES");
    std::FILE* out = path ? std::fopen(path, "w") : nullptr;
    if (!out) return;
    for (const BarrierSite& s : sites) std::fprintf(out, "%s:%d\n", name_of(s.file), s.line);
    std::fclose(out);
  }
} from_environment;
}  // namespace

void block_barrier(const char* file, int line) {
  if (!pass_site(file, line)) yield(State::kAtBlockBarrier);
}

void warp_barrier(const char* file, int line) {
  if (!pass_site(file, line)) meet_warp("__syncwarp");
}

void meet_warp(const char* what) {
  fiber().meeting = what;
  yield(State::kAtWarpMeeting);
}

namespace detail {
void publish(const void* object) { fiber().published = object; }
const void* published(int lane) {
  int first = block->current / kWarp * kWarp;
  return block->fibers[static_cast<std::size_t>(first + lane)].published;
}
}  // namespace detail

}  // namespace emu
