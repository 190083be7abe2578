# SPDX-License-Identifier: MIT
# libstdc++ is linked as a shared library, even where the compiler would take libstdc++.a: where its libstdc++.so is missing (a
# link that leads nowhere is passed over without a word, and the archive lies beside it), or -static-libstdc++ is among the
# flags. The archive brings over a hundred unique symbols (STB_GNU_UNIQUE: the numbers of locale facets and their kin), which
# the loader shares with every library that comes later, RTLD_LOCAL or not. `import ebb, torch` then crashed in PyTorch, which
# found facets of one copy under the numbers of the other (g++ 13 and 14; cmake/module.map hides them, too).
set(probe ${CMAKE_CURRENT_BINARY_DIR}/libstdcxx_probe)
file(WRITE ${probe}.cc "#include <iostream>\nvoid probe() { std::cout << 1; }\n")
separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${flags} -shared -fPIC ${probe}.cc -o ${probe}.so RESULT_VARIABLE failed ERROR_QUIET)
if(NOT failed)
  file(STRINGS ${probe}.so needed REGEX "lib(std)?c[+][+][.]so")
  if(NOT needed)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so.6 OUTPUT_VARIABLE shared
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(IS_ABSOLUTE "${shared}")
      message(STATUS "${CMAKE_CXX_COMPILER} takes libstdc++.a into shared libraries: linking ${shared}")
      add_link_options(LINKER:--push-state,--no-as-needed ${shared} LINKER:--pop-state)
    else()
      message(WARNING "${CMAKE_CXX_COMPILER} takes libstdc++.a into shared libraries and has no libstdc++.so.6: "
                      "install the shared C++ library. The Python module hides its copy.")
    endif()
  endif()
endif()
