from scyc.cli import main

main()
