// Shared by the schedules and LearningRate.
#pragma once

namespace dtn {

// Tolerance in epochs. Fractions of epochs are rounded, so an epoch that is nearly reached counts
// as reached.
inline constexpr double kNearly = 1e-9;

}  // namespace dtn
