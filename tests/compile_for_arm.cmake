# SPDX-License-Identifier: MIT
# cmake -DSOURCE=... -DCOMPILER=aarch64-linux-gnu-g++ -P compile_for_arm.cmake
# Code for SIMD instructions compiles for ARM too: its headers are the same, and some errors (a function of another target
# that cannot be inlined) show only where code is made. Nothing is linked or run.
file(GLOB_RECURSE files ${SOURCE}/src/*.cc)
set(failed 0)
foreach(file ${files})
  file(STRINGS ${file} includes REGEX "hwy/highway\\.h")
  if(NOT includes)
    continue()
  endif()
  execute_process(COMMAND ${COMPILER} -std=c++20 -O1 -ffp-contract=off -DFMT_SHARED -DHWY_SHARED_DEFINE -I${SOURCE}/include -I${SOURCE}/src
                          -idirafter /usr/include -c ${file} -o /dev/null
                  RESULT_VARIABLE result ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${file} does not compile for ARM:\n${said}")
    math(EXPR failed "${failed} + 1")
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "${failed} files do not compile for ARM")
endif()
