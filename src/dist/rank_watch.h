// Finds the rank that stops a job from continuing.
//
// Each rank sends the first one a note every kNoteSeconds, and the first one sends its note to
// each. The first rank judges the others:
//   silent  no note for `timeout`: the process has stopped, or its machine cannot be reached
//   late    others wait at a point that the rank has not reached, for longer than its allowance
//   stuck   all wait, and nothing has moved for twice `timeout`: no rank is at fault, but a network
//           or a device is
// The other ranks only check the first rank for silence, each a little later than the one before,
// so that only one of them reports it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/transport.h"

namespace dtn {

class RankWatch {
 public:
  static constexpr double kNoteSeconds = 1;
  static constexpr double kLongWorkSeconds = 1800;  // allowance of a rank in long work

  // Times are seconds since any fixed moment. With timeout 0 judge() never returns a verdict.
  RankWatch(int rank, int size, double timeout, double now);

  void hear(const RankNote& note, double now);
  // Restarts all times, because this process was suspended and has received no notes.
  void forgive(double now);

  struct Verdict {
    std::optional<int> rank;  // none: all ranks
    std::string what;         // "has not responded for 20 s"
  };
  std::optional<Verdict> judge(double now) const;

 private:
  struct Heard {
    RankNote note;
    double at;
  };
  std::optional<Verdict> find_silent(double now) const;
  std::optional<Verdict> find_late() const;
  std::optional<Verdict> find_stuck(double now) const;

  int rank_;
  double timeout_;
  double moved_at_;           // when a note last showed progress
  std::vector<Heard> heard_;  // per rank
};

}  // namespace dtn
