# SPDX-License-Identifier: MIT
"""Conan 2: `conan create packaging/conan` builds and packs the library from the tree that this recipe is in.

The libraries that Ebb needs are the distribution's: Random123 is not on ConanCenter, and one copy of OpenBLAS per program is
enough. `-c tools.system.package_manager:mode=install` installs what is missing.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt, Dnf, PacMan, Zypper


class EbbConan(ConanFile):
    name = "ebb-grad"
    description = "Losses, gradients and training: lazy tensors whose losses and gradients run as single sweeps over memory"
    license = "MIT"
    topics = ("automatic-differentiation", "deep-learning", "loss-functions", "simd", "cuda")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "program": [True, False]}
    default_options = {"shared": False, "program": False}
    languages = "C++"

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._tree, "CMakeLists.txt"))
        self.version = re.search(r"project\(ebb VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        for part in ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "cmake/*", "include/*", "src/*", "tools/*", "docs/*.md"):
            copy(self, part, self._tree, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def system_requirements(self):
        Apt(self).install(
            "libfmt-dev libhwy-dev libopenblas-dev librandom123-dev zlib1g-dev libpng-dev libjpeg-dev nlohmann-json3-dev "
            "libcli11-dev pkg-config".split(),
            check=True,
        )
        Dnf(self).install(
            "fmt-devel highway-devel openblas-devel zlib-devel libpng-devel libjpeg-turbo-devel json-devel cli11-devel "
            "pkgconf".split(),
            check=True,
        )
        PacMan(self).install("fmt highway openblas zlib libpng libjpeg-turbo nlohmann-json cli11 pkgconf".split(), check=True)
        Zypper(self).install(
            "fmt-devel libhwy-devel openblas-devel zlib-devel libpng16-devel libjpeg8-devel nlohmann_json-devel cli11-devel "
            "pkgconf".split(),
            check=True,
        )

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH", "PYTHON"):
            toolchain.cache_variables[f"EBB_BUILD_{part}"] = False
        toolchain.cache_variables["EBB_BUILD_PROGRAM"] = bool(self.options.program)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="ebb_shared" if self.options.shared else "ebb")
        if self.options.program:
            cmake.build(target="ebb_program")

    def package(self):
        cmake = CMake(self)
        components = ["development", "shared" if self.options.shared else "static"]
        for component in components + ["program"] * bool(self.options.program):
            cmake.install(component=component)
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The CMake files of the package know what the library needs; they are found in the package.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "ebb")]
        self.cpp_info.set_property("pkg_config_name", "none")
        self.cpp_info.libs = ["ebb"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["fmt", "hwy", "openblas", "z", "png16", "jpeg", "pthread", "dl"]
