// One cursor runs through the items of an epoch, batch after batch. A worker claims the next few
// items at the cursor, prepares them into their rows of their batch and comes back, so all workers
// share the batch that is needed soonest. The cursor may be `depth` batches ahead of the consumer;
// the batches between lie in a ring of slots.
#include "data/feed/loader.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "data/feed/bad_images.h"
#include "data/feed/epoch_plan.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"

namespace dtn {

namespace {

constexpr std::int64_t kMinDepth = 3;
constexpr std::int64_t kMaxClaim = 16;

constexpr Tensor Batch::*kTensors[] = {&Batch::images, &Batch::pixels, &Batch::flips,
                                       &Batch::erasures, &Batch::labels};

// A batch in the making, or ready.
struct Slot {
  Batch rows;                      // tensors and indices of batch_size rows
  std::vector<std::uint8_t> good;  // [batch_size], 0: left out
  std::int64_t count = 0;          // rows of this batch
  std::int64_t remaining = 0;      // rows not finished
  std::exception_ptr error;        // what the lowest failing row threw
  std::int64_t error_row = 0;
};

// Rows [begin, end) of a batch, given to one worker.
struct Claim {
  Slot* slot;
  std::int64_t begin, end;
  std::array<PlannedSample, kMaxClaim> samples;  // [end - begin]
};

struct Workspace {
  SampleWorkspace sample;
  TransformWorkspace transform;
};

LoaderOptions checked(const LoaderOptions& options, const Dataset& dataset) {
  DTN_CHECK(options.batch_size >= 1 && options.workers >= 0 && options.repeats >= 1 &&
                options.copies >= 1 && 0 <= options.rank && options.rank < options.ranks,
            "loader options: batch_size ", options.batch_size, ", workers ", options.workers,
            ", repeats ", options.repeats, ", copies ", options.copies, ", rank ", options.rank,
            " of ", options.ranks);
  if (dataset.size() == 0) throw DataError(cat("the data set is empty: ", dataset.description()));
  const std::int64_t total = epoch_length(dataset.size(), options.repeats, options.copies);
  if (options.drop_last && total < options.batch_size) {
    throw DataError(cat("the data set has ", dataset.size(), " images and data.repeats is ",
                        options.repeats, ", which does not fill one batch of ", options.batch_size,
                        "; lower train.batch_size or raise data.repeats (", dataset.description(),
                        ")"));
  }
  if (options.drop_last && (options.batch_size + 1) / 2 < options.ranks) {
    throw ConfigError(cat("train.batch_size ", options.batch_size, " is too small for ",
                          options.ranks, " processes; raise it to ", 2 * options.ranks));
  }
  return options;
}

// Moves the good ones of the first good.size() rows of `tensor` to its front.
void keep_good(Tensor& tensor, std::span<const std::uint8_t> good) {
  auto* bytes = static_cast<std::byte*>(tensor.raw());
  const std::size_t each = tensor.nbytes() / static_cast<std::size_t>(tensor.dim(0));
  std::size_t n = 0;
  for (std::size_t row = 0; row < good.size(); ++row) {
    if (!good[row]) continue;
    if (n != row) std::memcpy(bytes + n * each, bytes + row * each, each);
    ++n;
  }
}

}  // namespace

struct Loader::State {
  State(std::shared_ptr<const Dataset> d, Transform t, const LoaderOptions& o);
  ~State();

  std::int64_t batches() const {
    return options.drop_last ? plan.length() / options.batch_size
                             : (plan.length() + options.batch_size - 1) / options.batch_size;
  }
  // This rank's rows of a batch, the first of own_rows.
  std::int64_t rows_of(std::int64_t batch) const {
    const std::int64_t left = plan.length() - batch * options.batch_size;
    return std::lower_bound(own_rows.begin(), own_rows.end(), left) - own_rows.begin();
  }

  void start_threads();
  void start(std::int64_t new_epoch, std::int64_t first_batch);
  bool next(Batch& batch);
  bool has_ready();

  // With the mutex held.
  bool can_claim() const {
    return fill_batch < end_batch &&
           fill_batch - next_batch < static_cast<std::int64_t>(slots.size());
  }
  Claim take_claim();
  void finish(const Claim& done, std::exception_ptr error, std::int64_t error_row);
  bool is_ready() const { return next_batch < fill_batch && slot_of(next_batch).remaining == 0; }

  void work();
  void run(const Claim& claim, std::optional<Workspace>& workspace, std::exception_ptr& error,
           std::int64_t& error_row);
  void fill_row(const Claim& claim, std::int64_t row, Workspace& workspace);
  bool try_sample(std::int64_t index, const SampleKey& key, Batch& rows, std::int64_t row,
                  Workspace& workspace);
  void prepare(std::int64_t index, const SampleKey& key, Batch& rows, std::int64_t row,
               Workspace& workspace);
  Tensor allocate(const Shape& shape, DType dtype) const;
  void wait_ready(std::unique_lock<std::mutex>& lock);
  void hand_over(Slot& slot, Batch& batch);

  Slot& slot_of(std::int64_t batch) {
    return slots[static_cast<std::size_t>(batch) % slots.size()];
  }
  const Slot& slot_of(std::int64_t batch) const {
    return slots[static_cast<std::size_t>(batch) % slots.size()];
  }

  const std::shared_ptr<const Dataset> dataset;
  const Transform transform;
  const LoaderOptions options;
  EpochPlan plan;
  const std::vector<std::int64_t> own_rows;  // of a full global batch, that are this rank's
  const std::int64_t batch_size;             // of the tensors
  const bool raw;                            // batches carry pixels
  const std::int64_t claim_size;
  BadImages bad_images;
  double wait_seconds = 0;
  std::optional<Workspace> own_workspace;  // of the consumer, without workers

  std::mutex mutex;
  std::condition_variable work_ready, batch_ready;
  std::vector<Slot> slots;
  std::int64_t epoch = 0;
  std::int64_t next_batch = 0;  // the consumer's
  std::int64_t end_batch = 0;
  std::int64_t fill_batch = 0, fill_row_begin = 0;  // the cursor
  std::int64_t claims_out = 0;
  bool stopping = false;
  std::atomic<bool> cancelled = false;  // claims under way are to be given up
  std::vector<std::thread> threads;     // last, so that they see the rest whole
};

Loader::State::State(std::shared_ptr<const Dataset> d, Transform t, const LoaderOptions& o)
    : dataset(std::move(d)),
      transform(std::move(t)),
      options(checked(o, *dataset)),
      plan(dataset->size(), options),
      own_rows(
          rows_of_rank(std::min(options.batch_size, plan.length()), options.rank, options.ranks)),
      batch_size(std::max<std::int64_t>(1, static_cast<std::int64_t>(own_rows.size()))),
      raw(options.raw_pixels && dataset->has_pixels()),
      claim_size(
          std::clamp<std::int64_t>(batch_size / (4 * std::max(options.workers, 1)), 1, kMaxClaim)),
      bad_images(options.max_bad_images) {
  std::int64_t depth = 1;
  if (options.workers > 0) {
    depth = std::max(kMinDepth, 2 * std::int64_t{options.workers} / batch_size + 1);
    depth = std::min(depth, batches());
  }
  slots.resize(static_cast<std::size_t>(depth));
  const std::int64_t side = transform.image_size(), channels = transform.channels();
  for (Slot& slot : slots) {
    if (raw) {
      slot.rows.pixels = allocate({batch_size, side, side, channels}, DType::kUInt8);
      slot.rows.flips = allocate({batch_size}, DType::kUInt8);
      if (transform.erases()) slot.rows.erasures = allocate({batch_size, 5}, DType::kInt64);
    } else {
      slot.rows.images = allocate({batch_size, channels, side, side}, DType::kFloat32);
    }
    slot.rows.labels = allocate({batch_size}, DType::kInt64);
    slot.rows.indices.resize(static_cast<std::size_t>(batch_size));
    slot.good.resize(static_cast<std::size_t>(batch_size));
  }
}

Tensor Loader::State::allocate(const Shape& shape, DType dtype) const {
  if (!options.allocate) return Tensor::empty(shape, dtype);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return Tensor::wrap(options.allocate(bytes), 0, shape, dtype);
}

// Started only when all else is whole, so that a failure leaves none behind. What batches hold does
// not depend on the number of threads, so fewer than asked for will do.
void Loader::State::start_threads() {
  threads.reserve(static_cast<std::size_t>(options.workers));
  try {
    for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    log_warn(cat("the system gives ", threads.size(), " of ", options.workers,
                 " data workers (data.workers): ", e.what()));
  }
}

Loader::State::~State() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
    cancelled = true;
  }
  work_ready.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Loader::State::start(std::int64_t new_epoch, std::int64_t first_batch) {
  DTN_CHECK(new_epoch >= 0 && new_epoch <= std::numeric_limits<std::uint32_t>::max(), "epoch ",
            new_epoch);
  DTN_CHECK(first_batch >= 0 && first_batch <= batches(), "first batch ", first_batch, " of ",
            batches());
  std::unique_lock lock(mutex);
  end_batch = 0;
  cancelled = true;
  batch_ready.wait(lock, [&] { return claims_out == 0; });
  cancelled = false;
  plan.start(new_epoch);
  epoch = new_epoch;
  next_batch = fill_batch = first_batch;
  fill_row_begin = 0;
  end_batch = batches();
  work_ready.notify_all();
}

Claim Loader::State::take_claim() {
  Slot& slot = slot_of(fill_batch);
  if (fill_row_begin == 0) {
    slot.count = rows_of(fill_batch);
    slot.remaining = slot.count;
    slot.error = nullptr;
  }
  Claim taken{&slot, fill_row_begin, std::min(fill_row_begin + claim_size, slot.count), {}};
  for (std::int64_t row = taken.begin; row < taken.end; ++row) {
    taken.samples[static_cast<std::size_t>(row - taken.begin)] =
        plan.at(fill_batch * options.batch_size + own_rows[static_cast<std::size_t>(row)]);
  }
  fill_row_begin = taken.end;
  if (taken.end == slot.count) {
    ++fill_batch;
    fill_row_begin = 0;
  }
  ++claims_out;
  return taken;
}

void Loader::State::finish(const Claim& done, std::exception_ptr error, std::int64_t error_row) {
  Slot& slot = *done.slot;
  if (error && (!slot.error || error_row < slot.error_row)) {
    slot.error = error;
    slot.error_row = error_row;
  }
  slot.remaining -= done.end - done.begin;
  --claims_out;
  if (slot.remaining == 0 || claims_out == 0) batch_ready.notify_one();
}

void Loader::State::work() {
  // Nothing here runs in parallel; should it ever, it must not take the training's cores.
  omp_set_num_threads(1);
  std::optional<Workspace> workspace;
  std::unique_lock lock(mutex);
  for (;;) {
    work_ready.wait(lock, [&] { return stopping || can_claim(); });
    if (stopping) return;
    Claim mine = take_claim();
    lock.unlock();
    std::exception_ptr error;
    std::int64_t error_row = 0;
    run(mine, workspace, error, error_row);
    lock.lock();
    finish(mine, error, error_row);
  }
}

// Throws nothing: a worker must live to report what went wrong, or next() would wait for ever.
void Loader::State::run(const Claim& claim, std::optional<Workspace>& workspace,
                        std::exception_ptr& error, std::int64_t& error_row) {
  for (std::int64_t row = claim.begin; row < claim.end && !cancelled; ++row) {
    try {
      if (!workspace) workspace.emplace();
      fill_row(claim, row, *workspace);
    } catch (...) {
      error = std::current_exception();
      error_row = row;
      return;
    }
  }
}

void Loader::State::fill_row(const Claim& claim, std::int64_t row, Workspace& workspace) {
  Slot& slot = *claim.slot;
  const PlannedSample planned = claim.samples[static_cast<std::size_t>(row - claim.begin)];
  const std::int64_t size = dataset->size();
  std::int64_t index = planned.index;
  // A stand-in for a damaged image sees the random numbers of the image it replaces.
  const SampleKey key{options.seed, static_cast<std::uint32_t>(epoch), planned.key};
  bool good = try_sample(index, key, slot.rows, row, workspace);
  for (std::int64_t tries = 1; !good && options.drop_last; ++tries) {
    if (tries == size) throw DataError(cat("all images are damaged: ", dataset->description()));
    index = (index + 1) % size;
    good = try_sample(index, key, slot.rows, row, workspace);
  }
  slot.good[static_cast<std::size_t>(row)] = good;
  slot.rows.indices[static_cast<std::size_t>(row)] = index;
  slot.rows.labels.data<std::int64_t>()[row] = dataset->label(index);
}

// False when the image is damaged. It is tried again each time: what a damaged file yields depends
// on the crop, and must not depend on what was met before, or a resumed run would differ.
bool Loader::State::try_sample(std::int64_t index, const SampleKey& key, Batch& rows,
                               std::int64_t row, Workspace& workspace) {
  std::string what;
  try {
    prepare(index, key, rows, row, workspace);
    return true;
  } catch (const DataError& e) {
    what = e.what();
  }
  bad_images.add(index, dataset->sample_name(index), what);
  return false;
}

void Loader::State::prepare(std::int64_t index, const SampleKey& key, Batch& rows, std::int64_t row,
                            Workspace& workspace) {
  const std::int64_t each = transform.output_size();
  Sample sample = dataset->load(index, workspace.sample);
  if (!sample.ready.empty()) {
    DTN_CHECK(!raw, dataset->sample_name(index), " has no pixels, against what its data set says");
    DTN_CHECK(static_cast<std::int64_t>(sample.ready.size()) == each, dataset->sample_name(index),
              " has ", sample.ready.size(), " values, expected ", each);
    std::memcpy(rows.images.data<float>() + row * each, sample.ready.data(),
                sample.ready.size_bytes());
    return;
  }
  const PreparedImage prepared =
      sample.image ? transform.prepare(*sample.image, key, workspace.transform)
                   : transform.decode_and_prepare(sample.encoded, workspace.sample.name, key,
                                                  workspace.transform);
  if (!raw) return transform.normalize(prepared, key, rows.images.data<float>() + row * each);
  std::memcpy(rows.pixels.data<std::uint8_t>() + row * each, prepared.image->pixels.data(),
              static_cast<std::size_t>(each));
  rows.flips.data<std::uint8_t>()[row] = prepared.flip;
  if (!rows.erasures.defined()) return;
  const EraseBox box = transform.erasure(key).value_or(EraseBox{});
  const std::int64_t fields[] = {box.left, box.top, box.width, box.height,
                                 static_cast<std::int64_t>(box.noise)};
  std::ranges::copy(fields, rows.erasures.data<std::int64_t>() + row * 5);
}

void Loader::State::wait_ready(std::unique_lock<std::mutex>& lock) {
  if (is_ready()) return;
  auto begin = std::chrono::steady_clock::now();
  if (threads.empty()) {
    while (!is_ready()) {
      Claim mine = take_claim();
      std::exception_ptr error;
      std::int64_t error_row = 0;
      run(mine, own_workspace, error, error_row);
      finish(mine, error, error_row);
    }
  } else {
    batch_ready.wait(lock, [&] { return is_ready(); });
  }
  wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool Loader::State::next(Batch& batch) {
  std::unique_lock lock(mutex);
  for (;;) {
    if (next_batch >= end_batch) {
      batch.n = 0;
      return false;
    }
    wait_ready(lock);
    Slot& slot = slot_of(next_batch);
    if (slot.error) std::rethrow_exception(slot.error);
    // Workers leave the slot alone until next_batch moves on.
    lock.unlock();
    hand_over(slot, batch);
    lock.lock();
    batch.number = next_batch++;
    work_ready.notify_all();
    if (batch.n > 0) return true;
  }
}

bool Loader::State::has_ready() {
  std::lock_guard lock(mutex);
  if (next_batch >= end_batch || !is_ready()) return false;
  const Slot& slot = slot_of(next_batch);
  // One that has nothing left would make next() wait for the batch behind it.
  const auto end = slot.good.begin() + slot.count;
  return !slot.error && std::find(slot.good.begin(), end, 1) != end;
}

// Moves what is good to the front, and exchanges the slot's tensors for the caller's old ones. What
// may fail comes before the slot is touched, so that a caller may try again.
void Loader::State::hand_over(Slot& slot, Batch& batch) {
  const std::span<const std::uint8_t> good(slot.good.data(), static_cast<std::size_t>(slot.count));
  batch.indices.clear();
  batch.n = 0;
  for (std::size_t row = 0; row < good.size(); ++row) {
    if (good[row]) batch.indices.push_back(slot.rows.indices[row]);
  }
  for (Tensor Batch::*member : kTensors) {
    const Tensor& ours = slot.rows.*member;
    Tensor& theirs = batch.*member;
    const bool reusable = ours.defined() && theirs.defined() && theirs.unique() &&
                          theirs.shape() == ours.shape() && theirs.dtype() == ours.dtype() &&
                          theirs.device() == kCpu;
    if (reusable) continue;
    // Given back first, so that the allocator's cache can serve the next line.
    theirs = Tensor();
    if (ours.defined()) theirs = allocate(ours.shape(), ours.dtype());
  }
  batch.n = static_cast<std::int64_t>(batch.indices.size());
  for (Tensor Batch::*member : kTensors) {
    Tensor &ours = slot.rows.*member, &theirs = batch.*member;
    if (!ours.defined()) continue;
    keep_good(ours, good);
    std::swap(ours, theirs);
    if (batch.n < batch_size) theirs = theirs.slice(0, batch.n);
  }
}

int workers_of(const DataConfig& data, Device device) {
  constexpr int kOnCpu = 2, kMost = 32;
  if (data.workers) return *data.workers;
  // One core is left to the thread that feeds the device.
  return device == kCpu ? kOnCpu : std::clamp(max_threads() - 1, kOnCpu, kMost);
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Transform transform,
               const LoaderOptions& options)
    : state_(std::make_unique<State>(std::move(dataset), std::move(transform), options)) {
  state_->start_threads();
}

Loader::~Loader() = default;

std::int64_t Loader::batches_per_epoch() const { return state_->batches(); }

std::int64_t Loader::samples_per_epoch() const {
  const std::int64_t batches = state_->batches();
  return (batches - 1) * state_->rows_of(0) + state_->rows_of(batches - 1);
}

std::int64_t Loader::batch_size() const { return state_->batch_size; }
bool Loader::gives_pixels() const { return state_->raw; }
const Transform& Loader::transform() const { return state_->transform; }

void Loader::start(std::int64_t epoch, std::int64_t first_batch) {
  state_->start(epoch, first_batch);
}

bool Loader::next(Batch& batch) { return state_->next(batch); }
bool Loader::has_ready() const { return state_->has_ready(); }

LoaderReport Loader::report() const {
  return {state_->bad_images.count(), state_->bad_images.names(), state_->wait_seconds};
}

}  // namespace dtn
