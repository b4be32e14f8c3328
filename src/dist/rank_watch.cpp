#include "dist/rank_watch.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr double kStagger = 0.5;  // seconds between the verdicts of consecutive ranks
constexpr int kMaxStaggers = 8;

}  // namespace

RankWatch::RankWatch(int rank, int size, double timeout, double now)
    : rank_(rank),
      timeout_(timeout),
      moved_at_(now),
      heard_(static_cast<std::size_t>(size), Heard{{}, now}) {
  for (int r = 0; r < size; ++r) {
    RankNote& note = heard_[static_cast<std::size_t>(r)].note;
    note.rank = r;
    note.allowance = timeout;
  }
}

void RankWatch::hear(const RankNote& note, double now) {
  if (note.rank < 0 || note.rank >= static_cast<int>(heard_.size())) return;
  Heard& heard = heard_[static_cast<std::size_t>(note.rank)];
  if (note.entered != heard.note.entered || note.finished != heard.note.finished) moved_at_ = now;
  heard = {note, now};
}

void RankWatch::forgive(double now) {
  moved_at_ = now;
  for (Heard& heard : heard_) heard.at = now;
}

std::optional<RankWatch::Verdict> RankWatch::judge(double now) const {
  if (timeout_ <= 0) return std::nullopt;
  if (auto verdict = find_silent(now)) return verdict;
  if (rank_ != 0) return std::nullopt;
  if (auto verdict = find_late()) return verdict;
  return find_stuck(now);
}

std::optional<RankWatch::Verdict> RankWatch::find_silent(double now) const {
  const double patience = timeout_ + kStagger * std::min(rank_, kMaxStaggers);
  const std::size_t judged = rank_ == 0 ? heard_.size() : 1;
  for (std::size_t r = 0; r < judged; ++r) {
    const double silence = now - heard_[r].at;
    if (static_cast<int>(r) == rank_ || silence <= patience) continue;
    return Verdict{static_cast<int>(r),
                   cat("has not responded for ", std::lround(silence),
                       " s: it has stopped, or its machine cannot be reached")};
  }
  return std::nullopt;
}

std::optional<RankWatch::Verdict> RankWatch::find_late() const {
  // The latest point at which a rank waits, and the longest wait there.
  std::uint64_t front = 0;
  for (const Heard& h : heard_) {
    if (h.note.waited > 0) front = std::max(front, h.note.entered);
  }
  double waited = 0;
  for (const Heard& h : heard_) {
    if (h.note.entered == front) waited = std::max(waited, h.note.waited);
  }
  const Heard* last = nullptr;
  for (const Heard& h : heard_) {
    if (h.note.entered < front && (!last || h.note.entered < last->note.entered)) last = &h;
  }
  if (!last || waited <= std::max(timeout_, last->note.allowance)) return std::nullopt;
  return Verdict{last->note.rank, cat("has kept the others waiting for ", std::lround(waited),
                                      " s; it is ", last->note.doing)};
}

std::optional<RankWatch::Verdict> RankWatch::find_stuck(double now) const {
  const bool all_wait =
      std::ranges::all_of(heard_, [this](const Heard& h) { return h.note.waited > 2 * timeout_; });
  if (!all_wait || now - moved_at_ <= 2 * timeout_) return std::nullopt;
  return Verdict{std::nullopt,
                 cat("have waited for each other for ", std::lround(now - moved_at_),
                     " s without progress: the network between them or a device has failed")};
}

}  // namespace dtn
