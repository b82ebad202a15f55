"""What pyproject.toml cannot say: a part that is compiled when a C compiler is at hand, and left out if not."""

import os
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools._distutils.ccompiler import new_compiler
from setuptools._distutils.sysconfig import customize_compiler
from setuptools.command.build_ext import build_ext

CORES = os.cpu_count() or 1
# What Cython brings along for functions and memoryviews: one module, compiled once, instead of a part of each.
SHARED = "rocketeer._cyutility"
# No debug information: a third less time to build. -O2 saves as much again, but a send costs 5 to 10% more then.
# `make sanitize` wants others.
COMPILE_ARGS = os.environ.get("ROCKETEER_COMPILE_ARGS", "-O3 -g0").split()


class ParallelBuild(build_ext):
    """Compiles the modules side by side."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = CORES

    def run(self) -> None:
        if not (self.editable_mode or self.inplace):  # the benchmark is not part of a wheel
            self.extensions = [each for each in self.extensions if ".bench." not in each.name]
        super().run()


def can_compile() -> bool:
    """Whether a file that includes Python.h can be turned into a shared library here."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "try.c"
        source.write_text("#include <Python.h>\nint answer(void) { return 42; }\n")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            headers = [sysconfig.get_path("include")]
            objects = compiler.compile([str(source)], output_dir=folder, include_dirs=headers)
            compiler.link_shared_object(objects, str(Path(folder) / "try.so"))
        except Exception as error:  # whatever it is that a compiler, or the want of one, comes up with
            print(f"rocketeer: no usable C compiler, its inner loops will run in plain Python ({error})")
            return False
    return True


def extensions() -> list[Extension]:
    if not can_compile():
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        print("rocketeer: no Cython, its inner loops will run in plain Python")
        return []
    source = Path("src")
    modules = [
        Extension(
            ".".join(path.relative_to(source).with_suffix("").parts),
            [str(path)],
            depends=["src/rocketeer/record/_crc32.h", "src/rocketeer/security/_hmac_sha1.h"],
            include_dirs=["src/rocketeer/record", "src/rocketeer/security"],
            extra_compile_args=COMPILE_ARGS,
        )
        for path in sorted(source.rglob("*.pyx"))
    ]
    shared = Extension(SHARED, [f"src/{SHARED.replace('.', '/')}.c"], extra_compile_args=COMPILE_ARGS)
    return list(
        cythonize(
            [shared, *modules],
            build_dir="build/cython",
            include_path=["src"],
            nthreads=CORES,
            shared_utility_qualified_name=SHARED,
        )
    )


setup(ext_modules=extensions(), cmdclass={"build_ext": ParallelBuild})
