// Illustrations of P and of relative positions as matrices of numbers: Figs. 4 and 5 of the paper.
#pragma once

#include <vector>

#include "plot/page.h"

namespace dtn {

std::vector<plot::Figure> illustrations();

}  // namespace dtn
