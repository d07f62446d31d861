"""Settings of the frameworks, made before any test imports one."""

from mindport.verify.frameworks import prepare

prepare()
