"""`python -m mindport`."""

from mindport.cli.app import main

main()
