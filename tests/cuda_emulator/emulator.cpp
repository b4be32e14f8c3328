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

enum class State : unsigned char { kReady, kAtBlockBarrier, kAtWarpMeeting, kDone };

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr int kWarp = 32;

// SplitMix64. Seeding it costs nothing, which matters because every block of a grid has a
// generator.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed) {}
  // Returns a number below n.
  std::uint32_t below(std::uint32_t n) {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<std::uint32_t>(((z ^ (z >> 31)) >> 32) * n >> 32);
  }
  template <class T>
  void shuffle(std::vector<T>& v) {
    for (std::size_t n = v.size(); n > 1; --n) {
      std::swap(v[n - 1], v[below(static_cast<std::uint32_t>(n))]);
    }
  }

 private:
  std::uint64_t state_;
};

#if defined(__x86_64__)
// Saves the callee-saved registers on the current stack, stores its pointer in *from, and continues
// where the stack `to` was left.
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
  // `end`: end of a stack of kStackBytes.
  void prepare(char* end, void (*entry)()) {
    auto top = reinterpret_cast<std::uintptr_t>(end) & ~std::uintptr_t{15};
    auto* p = reinterpret_cast<void**>(top);
    *--p = nullptr;  // return address of entry, which never returns
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
  void prepare(char* end, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = end - kStackBytes;
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
};

// The order in which the lanes of one warp run until they wait. A lane that stops passes control to
// the next lane directly.
struct Turn {
  int first = 0;  // thread of lane 0
  std::vector<int> lanes;
  std::size_t position = 0;
};

struct Block : detail::RunningBlock {
  // Per thread.
  std::vector<detail::Thread> threads;
  std::vector<Fiber> fibers;
  std::vector<State> states;
  int count = 0;  // threads in use
  Context scheduler;
  int current = -1;
  Turn turn;
  const std::function<void()>* kernel = nullptr;
  std::unique_ptr<std::byte[]> memory;
  std::string error;

  detail::Thread& thread(int i) { return threads[static_cast<std::size_t>(i)]; }
  Fiber& fiber(int i) { return fibers[static_cast<std::size_t>(i)]; }
  State& state(int i) { return states[static_cast<std::size_t>(i)]; }
  // Makes the next runnable lane of the turn the current one. Returns false if there is none.
  bool next_lane() {
    while (turn.position < turn.lanes.size()) {
      const int i = turn.first + turn.lanes[turn.position++];
      if (i >= count || state(i) != State::kReady) continue;
      current = i;
      detail::thread = &thread(i);
      return true;
    }
    return false;
  }
};

Block& running() { return *static_cast<Block*>(detail::block); }

unsigned schedule_seed = 0;
std::mutex sites_mutex;
std::vector<BarrierSite> sites;
std::atomic<unsigned> sites_taken{0};
std::atomic<const BarrierSite*> removed{nullptr};
BarrierSite removed_site{};

void yield(State state) {
  Block& b = running();
  Context& from = b.fiber(b.current).context;
  b.state(b.current) = state;
  const bool goes_on = b.error.empty() && b.next_lane();
  Context::go(from, goes_on ? b.fiber(b.current).context : b.scheduler);
}

void fiber_main() {
  try {
    (*running().kernel)();
  } catch (const std::exception& e) {
    running().error = e.what();
  }
  yield(State::kDone);
  std::abort();  // a finished fiber is not resumed
}

class Scheduler {
 public:
  Scheduler(Block& b, unsigned seed) : b_(b), random_(seed), in_step_(seed == 0) {
    for (int w = 0; w * kWarp < b.count; ++w) warps_.push_back(w);
    b.turn.lanes.resize(kWarp);
    std::iota(b.turn.lanes.begin(), b.turn.lanes.end(), 0);
  }

  // Runs until every thread is done or none can move.
  void run() {
    for (;;) {
      if (!in_step_) random_.shuffle(warps_);
      bool moved = false;
      for (int w : warps_) {
        while (run_lanes(w)) {
          moved = true;
          if (b_.error.empty()) release_meeting(w);
          if (!b_.error.empty()) return;
          if (in_step_) break;
        }
      }
      if (moved) continue;
      if (all_done()) return;
      if (!release_block()) {
        b_.error = "the threads of a block wait for each other at different places for ever";
        return;
      }
    }
  }

 private:
  int first(int w) const { return w * kWarp; }
  int last(int w) const { return std::min(b_.count, (w + 1) * kWarp); }

  bool run_lanes(int w) {
    if (!in_step_) random_.shuffle(b_.turn.lanes);
    b_.turn.first = first(w);
    b_.turn.position = 0;
    if (!b_.next_lane()) return false;
    Context::go(b_.scheduler, b_.fiber(b_.current).context);
    return true;
  }

  // A warp meeting ends when every lane that still runs has reached it.
  void release_meeting(int w) {
    const char* what = nullptr;
    bool left = false;
    for (int i = first(w); i < last(w); ++i) {
      if (b_.state(i) == State::kDone) {
        left = true;
        continue;
      }
      if (b_.state(i) != State::kAtWarpMeeting) return;
      const char* its = b_.thread(i).meeting;
      if (what && what != its && std::strcmp(what, its) != 0) {
        b_.error =
            std::string("lanes of one warp meet for different things: ") + what + " and " + its;
        return;
      }
      what = its;
    }
    if (!what) return;
    // A lane that has left cannot take part in a collective operation of its warp.
    if (left) {
      b_.error = std::string("a lane has left the kernel while its warp meets for ") + what;
      return;
    }
    std::fill(b_.states.begin() + first(w), b_.states.begin() + last(w), State::kReady);
  }

  bool all_done() const {
    return std::all_of(b_.states.begin(), b_.states.begin() + b_.count,
                       [](State s) { return s == State::kDone; });
  }

  // The block's barrier opens when every thread that has not left waits at it.
  bool release_block() {
    const auto end = b_.states.begin() + b_.count;
    if (std::find(b_.states.begin(), end, State::kAtWarpMeeting) != end) return false;
    std::replace(b_.states.begin(), end, State::kAtBlockBarrier, State::kReady);
    return true;
  }

  Block& b_;
  Random random_;
  bool in_step_;
  std::vector<int> warps_;
};

// Returns the end of the stack of thread i. Stacks are whole pages apart, so each ends at another
// place of a page. Otherwise they would share a few cache lines.
char* stack_end(Fiber& f, int i) {
  constexpr std::size_t kSpread = std::size_t{16} << 10, kStep = 9 * 64;
  if (!f.stack) f.stack.reset(new char[kStackBytes + kSpread]);
  return f.stack.get() + kStackBytes + kSpread - static_cast<std::size_t>(i) * kStep % kSpread;
}

void run_block(Block& b, unsigned seed, std::size_t shared_bytes) {
  detail::block = &b;
  b.count = static_cast<int>(b.extent.x * b.extent.y * b.extent.z);
  if (static_cast<int>(b.fibers.size()) < b.count) {
    b.threads.resize(static_cast<std::size_t>(b.count));
    b.fibers.resize(static_cast<std::size_t>(b.count));
    b.states.resize(static_cast<std::size_t>(b.count));
  }
  // A separate allocation of exactly the requested size, so that AddressSanitizer sees its end.
  // All ones are NaN in every float type.
  b.memory.reset(new std::byte[shared_bytes]);
  std::memset(b.memory.get(), 0xff, shared_bytes);
  b.shared = b.memory.get();
  for (int i = 0; i < b.count; ++i) {
    detail::Thread& t = b.thread(i);
    auto n = static_cast<unsigned>(i);
    t.index = {n % b.extent.x, n / b.extent.x % b.extent.y, n / (b.extent.x * b.extent.y)};
    t.lane = i % kWarp;
    t.warp = &t - t.lane;
    t.exchanges = t.computed = 0;
    b.state(i) = State::kReady;
    b.fiber(i).context.prepare(stack_end(b.fiber(i), i), fiber_main);
  }
  Scheduler(b, seed).run();
  detail::thread = nullptr;
  detail::block = nullptr;
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
  if (seed) Random(seed).shuffle(order);
  std::string error;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t n = 0; n < blocks; ++n) {
    static thread_local Block b;
    dtn::FlushDenormals flush;  // device builds use -ftz=true
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

namespace {
// Records the site. Returns true if it has been removed.
bool pass_site(const char* file, int line) {
  BarrierSite site{file, line};
  {
    // There are few sites, and their names are literals: the last one is nearly always the same.
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

// Faults and reports that the environment asks for.
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
  detail::thread->meeting = what;
  yield(State::kAtWarpMeeting);
}

namespace detail {
constinit thread_local Thread* thread = nullptr;
constinit thread_local RunningBlock* block = nullptr;
}  // namespace detail

}  // namespace emu
