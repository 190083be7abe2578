// SPDX-License-Identifier: MIT
#pragma once
#include <string>

// MPI without its header: Ebb is built without it, and opens it when a launcher has started the program. Handles and
// constants are those of Open MPI, whose ABI has been the same since version 1.10 (libmpi.so.40 from 3.0 on); those of
// MPICH differ.
namespace ebb::comm {

using MpiHandle = void*;   // communicators, datatypes
using MpiRequest = void*;  // of something in progress
inline constexpr int kMpiThreadMultiple = 3;

#define EBB_MPI_FUNCTIONS(X)                                                                                       \
  X(Init_thread, (int* argc, char*** argv, int required, int* provided))                                           \
  X(Initialized, (int* flag))                                                                                      \
  X(Finalized, (int* flag))                                                                                        \
  X(Finalize, ())                                                                                                  \
  X(Comm_dup, (MpiHandle from, MpiHandle * to))                                                                    \
  X(Comm_rank, (MpiHandle comm, int* rank))                                                                        \
  X(Comm_size, (MpiHandle comm, int* size))                                                                        \
  X(Comm_set_errhandler, (MpiHandle comm, MpiHandle handler))                                                      \
  X(Error_string, (int code, char* text, int* length))                                                             \
  X(Get_library_version, (char* text, int* length))                                                                \
  X(Test, (MpiRequest * request, int* done, void* status))                                                         \
  X(Ibcast, (void* data, int count, MpiHandle type, int root, MpiHandle comm, MpiRequest* request))                \
  X(Iallgather, (const void* given, int count, MpiHandle type, void* taken, int taken_count, MpiHandle taken_type, \
                 MpiHandle comm, MpiRequest* request))                                                             \
  X(Ialltoall, (const void* given, int count, MpiHandle type, void* taken, int taken_count, MpiHandle taken_type,  \
                MpiHandle comm, MpiRequest* request))                                                              \
  X(Isend, (const void* data, int count, MpiHandle type, int to, int tag, MpiHandle comm, MpiRequest* request))    \
  X(Irecv, (void* data, int count, MpiHandle type, int from, int tag, MpiHandle comm, MpiRequest* request))

struct MpiLibrary {
#define EBB_MEMBER(name, parameters) int(*name) parameters = nullptr;
  EBB_MPI_FUNCTIONS(EBB_MEMBER)
#undef EBB_MEMBER
  MpiHandle world = nullptr, byte = nullptr, errors_return = nullptr;
  std::string version;  // "Open MPI v4.1.4"
};

// Opens the library. Throws an Error that says what to install if there is none, or one that is not Open MPI.
const MpiLibrary& mpi_library();

// Was this process started by an MPI launcher?
bool launched_by_mpi();

}  // namespace ebb::comm
