# Needs: the lock of the measured environment, the cores of this run.
# Makes: results/environment.json: the environment built, planned, tuned, and what a probe found in force in it.


rule environment:
    input:
        "envs/cpu.lock",
        package("host"),
    output:
        "results/environment.json",
    log:
        "results/logs/environment.log",
    threads: workflow.cores
    params:
        cores=workflow.cores,
    shell:
        "cpulab environment --cores {params.cores}"
