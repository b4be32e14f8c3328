// Moves bytes between the memories of processes. Communicator builds all its operations from these
// few moves; src/dist/mpi implements them by MPI.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace dtn {

// A block of bytes in some memory.
struct ByteBlock {
  std::size_t begin = 0, bytes = 0;
};

// A note that shows that a rank is alive, see src/dist/rank_watch.h.
struct RankNote {
  int rank = 0;
  std::uint64_t entered = 0;   // number of points reached where it waits for others
  std::uint64_t finished = 0;  // moves and sums that are done
  double waited = 0;           // seconds it has waited there; 0: it computes
  double allowance = 0;        // seconds that others should wait for it
  char doing[48] = "working";  // present activity
};

// Driven by one thread. Every rank starts each move; moves of one kind start in the same order on
// all ranks. A move runs until done() returns true, and progresses only while done() is called. Its
// memory belongs to the move until then. Failures end the job.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Rank and size among the ranks of this host.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;

  class Move {
   public:
    virtual ~Move() = default;
    virtual bool done() = 0;
  };
  // Block k of `from` goes to rank k, into the block of that rank's `to` for this rank. A block
  // ends below 2 GiB; a rank's block for itself has no bytes.
  virtual std::unique_ptr<Move> exchange(const std::byte* from,
                                         const std::vector<ByteBlock>& from_blocks, std::byte* to,
                                         const std::vector<ByteBlock>& to_blocks) = 0;
  // Block k of `all` comes from rank k; the block of this rank is already there.
  virtual std::unique_ptr<Move> gather(std::byte* all, const std::vector<ByteBlock>& blocks) = 0;
  // Sends `data` from rank `root` to all ranks. Counts as the same kind of move as gather().
  virtual std::unique_ptr<Move> broadcast(std::byte* data, std::size_t bytes, int root) = 0;

  // Sends a note without waiting. Notes of one rank arrive in order.
  virtual void send(const RankNote& note, int to) = 0;
  virtual std::optional<RankNote> receive() = 0;

  // Ends all processes of the job.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace dtn
