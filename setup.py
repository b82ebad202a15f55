"""What pyproject.toml cannot say: a part that is compiled when a C compiler is at hand, and left out if not."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    speed = Extension("rocketeer.record._speed", ["src/rocketeer/record/_speed.pyx"], optional=True)
    extensions = cythonize([speed], build_dir="build")

setup(ext_modules=extensions)
