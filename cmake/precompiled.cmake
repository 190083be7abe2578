# What nearly every file includes and takes a second to parse: standard headers, {fmt}, and GoogleTest for the tests. No header
# of Ebb is among them, so that a change of one rebuilds no more than before. The sanitized builds have none: they show
# an include that a file lacks.
set(standard <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex>
    <numeric> <optional> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(for_tests <filesystem> <fstream> <iterator> <random> <sstream> <thread> <gtest/gtest.h>)

# Makes `name`, of the kind OBJECT (library) or EXECUTABLE, whose headers others of that kind and with the same options use.
function(ebb_precompiled_headers name kind libraries)
  if(EBB_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
  if(kind STREQUAL EXECUTABLE)
    add_executable(${name} ${source})
  else()
    add_library(${name} OBJECT ${source})
  endif()
  target_link_libraries(${name} PRIVATE ${libraries})
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

function(ebb_use_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
    # For ccache; and as for -Wno-restrict: g++ 12 tells of more mistakes that are not, from precompiled headers.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-stringop-overflow)
  endif()
endfunction()
