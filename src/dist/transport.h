// How bytes get from the memory of one process to that of others. Communicator builds everything
// else from these few moves; src/dist/mpi implements them by MPI.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtn {

// A part of some memory.
struct ByteBlock {
  std::size_t begin = 0, bytes = 0;
};

// A sign of life, see src/dist/rank_watch.h.
struct RankNote {
  int rank = 0;
  std::uint64_t entered = 0;   // times it has come to a point where it waits for others
  std::uint64_t finished = 0;  // moves and sums that are done
  double waited = 0;           // seconds that it has been waiting there; 0: it computes
  double allowance = 0;        // seconds that others should wait for it
  char doing[48] = "working";  // what keeps it
};

// Driven by one thread. A move is started by every rank, in the same order among those of a kind;
// it runs on until done() says so, and only goes on while done() is being asked. Memory belongs to
// the move until then. Failures end the job.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Among the ranks of this host.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;

  class Move {
   public:
    virtual ~Move() = default;
    virtual bool done() = 0;
  };
  // Block k of `from` goes to rank k and becomes there what its `to` has at this rank. A block has
  // less than 2 GiB; a rank's block for itself has no bytes.
  virtual std::unique_ptr<Move> exchange(const std::byte* from,
                                         const std::vector<ByteBlock>& from_blocks, std::byte* to,
                                         const std::vector<ByteBlock>& to_blocks) = 0;
  // Block k of `all` comes from rank k; a rank's own is there already.
  virtual std::unique_ptr<Move> gather(std::byte* all, const std::vector<ByteBlock>& blocks) = 0;
  // Of one kind with gather().
  virtual std::unique_ptr<Move> broadcast(std::byte* data, std::size_t bytes, int root) = 0;

  // Sends and forgets. Notes of one rank arrive in order.
  virtual void send(const RankNote& note, int to) = 0;
  virtual std::optional<RankNote> receive() = 0;

  // Ends all processes of the job.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace dtn
