// The steps around a pass of DTN (DtnLogits, DtnSum) as separate kernels, for paths that do not
// fuse them. The functions are static because this header is compiled for several instruction sets:
// the linker must not merge their versions.
#pragma once

#include "dtn/core/check.h"
#include "kernels/dtn/dtn_norm.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {

template <class Queue>
static void make_lambdas(Queue& queue, const DtnNormForward& args) {
  const DType acc = accumulator_of(args.dtype);
  const DtnLogits& l = args.logits;
  if (l.mean) run(queue, Sigmoid{acc, args.heads, l.mean, l.lambda_mean});
  if (l.var) run(queue, Sigmoid{acc, args.heads, l.var, l.lambda_var});
}

// Returns the number of elements of an image. Throws Error if other tokens lie between images.
static inline std::int64_t image_elements(const DtnNormArguments& args) {
  DTN_CHECK(args.stride() == args.elements(),
            "dtn: a fused residual sum needs images without tokens between them");
  return args.elements();
}

template <class Queue>
static void make_sum(Queue& queue, const DtnNormForward& args) {
  const DtnSum& s = args.sum;
  if (!s.residual) return;
  const std::int64_t image = image_elements(args), count = args.batch * image;
  if (s.scale) {
    run(queue, ScaleRows{args.dtype, count, image, s.scale, s.branch, s.residual, s.x});
  } else {
    run(queue, Add{args.dtype, count, s.residual, s.branch, s.x});
  }
}

template <class Queue>
static void give_to_branch(Queue& queue, const DtnNormBackward& args) {
  if (!args.dbranch) return;
  const std::int64_t image = image_elements(args);
  run(queue, ScaleRows{args.dtype, args.batch * image, image, args.branch_scale, args.dx, nullptr,
                       args.dbranch});
  if (!args.dbranch_sums) return;
  run(queue, SumRows{args.dtype, args.batch * image / args.channels, args.channels, args.dbranch,
                     args.dbranch_sums});
}

}  // namespace dtn
