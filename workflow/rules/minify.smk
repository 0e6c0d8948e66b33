# Needs: the environment, and the accuracy fault seen by `debug`. Makes: results/minify/accuracy.json.


rule minify:
    input:
        "results/environment.json",
        # Minifying what does not fail would be for nothing; the record says whether it did.
        "results/debug/accuracy_scalar.json",
        f"{LIBRARY}/cases.py",
        package("minify"),
        f"{LIBRARY}/debug/faults.py",
        STEP_CODE,
    output:
        "results/minify/accuracy.json",
    log:
        "results/logs/minify/accuracy.log",
    threads: workflow.cores
    params:
        settings=STEP_SETTINGS,
    shell:
        "cpulab minify accuracy {params.settings:q}"
