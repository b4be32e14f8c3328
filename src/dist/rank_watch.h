// Finds the rank that keeps a job from going on.
//
// Each rank sends the first one a note every kNoteSeconds, and the first one sends its own to each.
// The first rank judges the others:
//   silent  no note for `timeout`: the process has stopped, or its machine cannot be reached
//   late    others wait, for longer than its allowance, at a point that it has not come to
//   stuck   all wait at one point, where nothing has moved for twice `timeout`: no rank is at
//   fault,
//           but a network or a device is
// The others only judge whether the first is silent, rank by rank a little later, so that one
// of them speaks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/transport.h"

namespace dtn {

class RankWatch {
 public:
  static constexpr double kNoteSeconds = 1;
  static constexpr double kLongWorkSeconds = 1800;  // the allowance of a rank in long work

  // Times are seconds since any moment; timeout 0: no verdict is ever passed.
  RankWatch(int rank, int size, double timeout, double now);

  void hear(const RankNote& note, double now);
  // This process did not run for a while, its machine being suspended, and has heard nothing.
  void forgive(double now);

  struct Verdict {
    std::optional<int> rank;  // nothing: all of them
    std::string what;         // "has not been heard of for 20 s"
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
  double moved_at_;           // when a note last said that something had happened
  std::vector<Heard> heard_;  // of each rank
};

}  // namespace dtn
