// Attention inside groups of tokens, forward and backward. It uses the heads of attention_forward.h
// and attention_backward.h on rows that are found through the index of a group.
//    s = scale q k^T + bias + penalty    p = softmax(s)    out = p v    lse = log sum exp s
//    dv = p^T dout    dp = dout v^T    delta = rowsum(dout out)    ds = p (dp - delta)
//    dq = scale ds k    dk = scale ds^T q    dbias = sum of ds over samples and groups
#include "kernels/grouped_attention/grouped_attention.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/attention/attention_backward.h"
#include "kernels/attention/attention_forward.h"
#include "kernels/attention/table_bias.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

// One head of a unit, for its queries from first_query on. A unit is one group of one sample.
struct Item {
  std::int64_t unit, head, first_query;
};

// Division of the items into tasks. A task is a run of units, with all heads or one head, and one
// segment of queries. The division depends on the problem's shape alone.
class Tasks {
 public:
  // Divides the `queries` of a unit into segments of at most `segment`. A task has at most `run`
  // units.
  Tasks(std::int64_t units, std::int64_t heads, std::int64_t queries, std::int64_t segment,
        std::int64_t run)
      : units_(units),
        heads_(heads),
        segment_(segment),
        segments_(divide_up(queries, segment)),
        run_(run),
        heads_per_task_(has_all_heads(units) ? heads : 1) {}
  // The heads of a token are adjacent in memory, so a task takes them together if there are enough
  // units for all threads.
  static bool has_all_heads(std::int64_t units) { return units >= 64; }

  std::int64_t runs() const { return divide_up(units_, run_); }
  std::int64_t count() const { return runs() * heads_ / heads_per_task_ * segments_; }
  std::int64_t run_of(std::int64_t task) const {
    return task / segments_ / (heads_ / heads_per_task_);
  }
  std::int64_t size(std::int64_t task) const {
    return std::min(run_, units_ - run_of(task) * run_) * heads_per_task_;
  }
  Item item(std::int64_t task, std::int64_t i) const {
    const std::int64_t first_head = task / segments_ % (heads_ / heads_per_task_) * heads_per_task_;
    return {run_of(task) * run_ + i / heads_per_task_, first_head + i % heads_per_task_,
            task % segments_ * segment_};
  }
  // The item that this thread probably computes after item i of a task.
  std::optional<Item> after(std::int64_t task, std::int64_t i) const {
    if (i + 1 < size(task)) return item(task, i + 1);
    task += omp_get_num_threads();
    if (task < count()) return item(task, 0);
    return std::nullopt;
  }

 private:
  std::int64_t units_, heads_, segment_, segments_, run_, heads_per_task_;
};

// Locates the tokens of units in the arrays.
template <class S>
class Units {
 public:
  Units(Scratch::Scope& shared, const GroupedAttentionProblem& p) : p_(p), tokens_(p.tokens) {
    if (tokens_) return;
    const std::int64_t count = std::max(p.queries, p.keys);
    auto* all = shared.take<std::int64_t>(count);
    std::iota(all, all + count, std::int64_t{0});
    tokens_ = all;
  }

  template <class Pointer>
  auto query_rows(const HeadsOfRows<Pointer>& heads, const Item& item) const {
    return rows(heads, item, p_.queries).from(item.first_query);
  }
  template <class Pointer>
  auto key_rows(const HeadsOfRows<Pointer>& heads, const Item& item) const {
    return rows(heads, item, p_.keys);
  }
  // Heads of an array [B, G queries, H, Dv].
  template <class Pointer>
  HeadsOfRows<Pointer> outputs(Pointer rows) const {
    return {rows, p_.heads * p_.value_dim, 0, p_.value_dim};
  }
  // Offset of the queries of an item in [B, G, H, queries].
  std::int64_t in_lse(const Item& item) const {
    return (item.unit * p_.heads + item.head) * p_.queries + item.first_query;
  }

 private:
  template <class Pointer>
  auto rows(const HeadsOfRows<Pointer>& heads, const Item& item, std::int64_t per_group) const {
    using T = std::conditional_t<std::is_same_v<Pointer, void*>, S, const S>;
    const std::int64_t sample = item.unit / p_.groups, group = item.unit % p_.groups;
    T* first = static_cast<T*>(heads.rows) + sample * p_.groups * per_group * heads.ld;
    return MappedRows<T>{first + heads.first + item.head * heads.stride, heads.ld,
                         tokens_ + group * per_group};
  }

  const GroupedAttentionProblem& p_;
  const std::int64_t* tokens_;  // [G, n]
};

HeadsOfRows<const void*> as_read(const HeadsOfRows<void*>& heads) {
  return {heads.rows, heads.ld, heads.first, heads.stride};
}

AttentionSizes head_sizes(const GroupedAttentionProblem& p, std::int64_t queries) {
  return {queries, p.keys, p.key_dim, p.value_dim, p.scale};
}

template <class S>
void forward(CpuQueue& queue, const GroupedAttentionForward& args) {
  using A = AccumulatorOf<S>;
  using Head = ForwardHead<S, MappedRows, TableBias<A>>;
  constexpr std::int64_t kSegment = 576;  // whole blocks; packing the keys costs little
  const GroupedAttentionProblem& p = args.problem;
  Scratch::Scope shared(queue.scratch());
  const Units<S> units(shared, p);
  const BiasTables<A> biases(shared, p);
  const auto outs = units.outputs(args.out);
  const std::int64_t key_bytes = p.key_dim * std::int64_t{sizeof(S)};
  const std::int64_t value_bytes = p.value_dim * std::int64_t{sizeof(S)};
  const Tasks tasks(p.batch * p.groups, p.heads, p.queries, kSegment,
                    std::clamp<std::int64_t>(p.batch * p.groups / 256, 1, 16));
  parallel_for(tasks.count(), [&](std::int64_t task) {
    for (std::int64_t i = 0; i < tasks.size(task); ++i) {
      Scratch::Scope scope(queue.scratch());
      const Item item = tasks.item(task, i);
      const std::int64_t queries = std::min(kSegment, p.queries - item.first_query);
      RowPrefetch<MappedRows<const S>> next;
      if (const auto after = tasks.after(task, i)) {
        const std::int64_t rows = std::min(kSegment, p.queries - after->first_query);
        next.add(units.query_rows(p.q, *after), rows, key_bytes);
        next.add(units.key_rows(p.k, *after), p.keys, key_bytes);
        next.add(units.key_rows(p.v, *after), p.keys, value_bytes);
        next.add(units.query_rows(as_read(outs), *after), rows, value_bytes);
      }
      const typename Head::Shape shape(head_sizes(p, queries), Head::max_rows);
      Head(scope, shape,
           biases.of(scope, item.head, item.unit % p.groups, item.first_query, nullptr), next)
          .run({units.query_rows(p.q, item), units.key_rows(p.k, item), units.key_rows(p.v, item),
                units.query_rows(outs, item), static_cast<A*>(args.lse) + units.in_lse(item)});
    }
  });
}

// dbias [H, queries, keys] += parts [runs, H, table], part by part.
template <class A>
void add_parts(const GroupedAttentionProblem& p, const BiasTables<A>& biases, const A* parts,
               std::int64_t runs, A* dbias) {
  parallel_for(p.heads * p.queries, [&](std::int64_t row) {
    const std::int64_t head = row / p.queries;
    const A* part = parts + head * biases.numel() + row % p.queries * biases.ld();
    for_each_vector<A>(p.keys, [&](std::int64_t j, auto n) {
      Vec<A> sum{};
      for (std::int64_t r = 0; r < runs; ++r) {
        sum += load_n(part + r * p.heads * biases.numel() + j, n);
      }
      A* to = dbias + row * p.keys + j;
      store_n(to, load_n(to, n) + sum, n);
    });
  });
}

// Number of units per task. With a gradient of the bias, each task sums the gradient of its units
// in separate memory. So tasks are few, but enough for many threads.
std::int64_t backward_run(const GroupedAttentionProblem& p, bool with_dbias) {
  const std::int64_t units = p.batch * p.groups;
  if (!with_dbias) return std::clamp<std::int64_t>(units / 256, 1, 16);
  const std::int64_t runs = Tasks::has_all_heads(units) ? 32 : divide_up(64, p.heads);
  return divide_up(units, std::min(units, runs));
}

template <class S>
void backward(CpuQueue& queue, const GroupedAttentionBackward& args) {
  using A = AccumulatorOf<S>;
  using Head = BackwardHead<S, MappedRows, TableBias<A>>;
  const GroupedAttentionProblem& p = args.problem;
  Scratch::Scope shared(queue.scratch());
  const Units<S> units(shared, p);
  const BiasTables<A> biases(shared, p);
  const auto outs = units.outputs(args.out), douts = units.outputs(args.dout);
  const bool with_dbias = p.bias && args.dbias;
  const Tasks tasks(p.batch * p.groups, p.heads, p.queries, p.queries, backward_run(p, with_dbias));
  const std::int64_t parts_numel = tasks.runs() * p.heads * biases.numel();
  A* parts = with_dbias ? shared.take<A>(parts_numel) : nullptr;  // [runs, H, table]
  const std::int64_t key_bytes = p.key_dim * std::int64_t{sizeof(S)};
  const std::int64_t value_bytes = p.value_dim * std::int64_t{sizeof(S)};
  const typename Head::Shape shape(head_sizes(p, p.queries), Head::max_rows);
  parallel_for(tasks.count(), [&](std::int64_t task) {
    const std::int64_t first_unit = tasks.item(task, 0).unit;
    for (std::int64_t i = 0; i < tasks.size(task); ++i) {
      Scratch::Scope scope(queue.scratch());
      const Item item = tasks.item(task, i);
      RowPrefetch<MappedRows<const S>> next;
      if (const auto after = tasks.after(task, i)) {
        next.add(units.query_rows(p.q, *after), p.queries, key_bytes);
        next.add(units.key_rows(p.k, *after), p.keys, key_bytes);
        next.add(units.key_rows(p.v, *after), p.keys, value_bytes);
        next.add(units.query_rows(outs, *after), p.queries, value_bytes);
        next.add(units.query_rows(douts, *after), p.queries, value_bytes);
        next.add(units.query_rows(as_read(args.dq), *after), p.queries, key_bytes);
        next.add(units.key_rows(as_read(args.dk), *after), p.keys, key_bytes);
        next.add(units.key_rows(as_read(args.dv), *after), p.keys, value_bytes);
      }
      A* part = nullptr;
      if (with_dbias) {
        part = parts + (tasks.run_of(task) * p.heads + item.head) * biases.numel();
        if (item.unit == first_unit) std::fill_n(part, biases.numel(), A{0});
      }
      Head(scope, shape, biases.of(scope, item.head, item.unit % p.groups, 0, part), next)
          .run({units.query_rows(p.q, item), units.key_rows(p.k, item), units.key_rows(p.v, item),
                units.query_rows(outs, item), units.query_rows(douts, item),
                static_cast<const A*>(args.lse) + units.in_lse(item),
                units.query_rows(args.dq, item), units.key_rows(args.dk, item),
                units.key_rows(args.dv, item)});
    }
  });
  if (with_dbias) add_parts(p, biases, parts, tasks.runs(), static_cast<A*>(args.dbias));
}

}  // namespace

void run(CpuQueue& queue, const GroupedAttentionForward& args) {
  if (args.problem.is_empty()) return;
  for_dtype("grouped attention", args.problem.dtype,
            [&](auto zero) { forward<decltype(zero)>(queue, args); });
}

void run(CpuQueue& queue, const GroupedAttentionBackward& args) {
  if (args.problem.is_empty()) return;
  for_dtype("grouped attention", args.problem.dtype,
            [&](auto zero) { backward<decltype(zero)>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(GroupedAttentionForward)
DTN_DISPATCH(GroupedAttentionBackward)
