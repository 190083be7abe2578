// SPDX-License-Identifier: MIT
#include "cuda/library/cusolver.h"

#include <string>

#include "cuda/runtime/open_library.h"

namespace ebb::cuda {
namespace {

using cusolver::Status;

template <class OfType>
void fill_of_type(const OpenLibrary& from, OfType& of, const std::string& head);
template <>
void fill_of_type(const OpenLibrary& from, cusolver::OfType& of, const std::string& head) {
#define EBB_LOAD(name, symbol, parameters) \
  of.name = reinterpret_cast<Status(*) parameters>(from.function((head + #symbol).c_str()));
  EBB_CUSOLVER_OF_TYPE(EBB_LOAD)
}
template <>
void fill_of_type(const OpenLibrary& from, Cublas::OfType& of, const std::string& head){EBB_CUBLAS_OF_TYPE(EBB_LOAD)
#undef EBB_LOAD
}

OptionalLibrary<Cusolver>& solvers() {
  static auto* const all =
      new OptionalLibrary<Cusolver>("EBB_CUSOLVER", {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"},
                                    [](const OpenLibrary& from, Cusolver& t) {
#define EBB_LOAD(name, symbol, parameters) t.name = reinterpret_cast<Status(*) parameters>(from.function(#symbol));
                                      EBB_CUSOLVER(EBB_LOAD)
#undef EBB_LOAD
#define EBB_LOAD(name, symbol, parameters) t.name = reinterpret_cast<Status(*) parameters>(from.try_function(#symbol));
                                      EBB_CUSOLVER_SINCE_12_6(EBB_LOAD)
#undef EBB_LOAD
                                      fill_of_type(from, t.f32, "cusolverDnS");
                                      fill_of_type(from, t.f64, "cusolverDnD");
                                    });
  return *all;
}
OptionalLibrary<Cublas>& products() {
  static auto* const all = new OptionalLibrary<Cublas>(
      "EBB_CUSOLVER", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}, [](const OpenLibrary& from, Cublas& t) {
#define EBB_LOAD(name, symbol, parameters) t.name = reinterpret_cast<Status(*) parameters>(from.function(#symbol));
        EBB_CUBLAS(EBB_LOAD)
#undef EBB_LOAD
        fill_of_type(from, t.f32, "cublasS");
        fill_of_type(from, t.f64, "cublasD");
      });
  return *all;
}

}  // namespace

const Cusolver* cusolver_table() { return solvers().get(); }
const Cublas* cublas_table() { return products().get(); }

void install_cusolver(const Cusolver* table, const Cublas* batches) {
  solvers().install(table);
  products().install(batches);
}

}  // namespace ebb::cuda
