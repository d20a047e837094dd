from embyproc.cli import main

main()
