# SPDX-License-Identifier: MIT
# An overlay port: vcpkg install ebb-grad --overlay-ports=packaging/vcpkg/ports builds the tree that it is in.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES program EBB_BUILD_PROGRAM)
vcpkg_find_acquire_program(PKGCONFIG)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${features}
        -DEBB_BUILD_TESTS=OFF
        -DEBB_BUILD_EXAMPLES=OFF
        -DEBB_BUILD_BENCH=OFF
        -DEBB_BUILD_PYTHON=OFF
        "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME ebb CONFIG_PATH lib/cmake/ebb)
vcpkg_fixup_pkgconfig()
if("program" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES ebb AUTO_CLEAN)
endif()

# Both kinds are always built; a triplet has one of them.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB other "${CURRENT_PACKAGES_DIR}/lib/libebb.so*" "${CURRENT_PACKAGES_DIR}/debug/lib/libebb.so*"
                    "${CURRENT_PACKAGES_DIR}/share/ebb/ebb-shared*.cmake")
else()
    file(GLOB other "${CURRENT_PACKAGES_DIR}/lib/libebb.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libebb.a"
                    "${CURRENT_PACKAGES_DIR}/share/ebb/ebb-static*.cmake")
endif()
file(REMOVE ${other})
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
