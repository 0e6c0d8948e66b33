# Needs: the environment. Makes: results/model/weights.json: whether the model can be loaded, and with which weights.


rule model:
    input:
        "results/environment.json",
        f"{LIBRARY}/models.py",
        f"{LIBRARY}/model_step.py",
        f"{LIBRARY}/models_worker.py",
        STEP_CODE,
    output:
        "results/model/weights.json",
    log:
        "results/logs/model/weights.log",
    # First of the steps: a model name that cannot be loaded is said before anything long has run.
    priority: 100
    threads: workflow.cores
    params:
        settings=STEP_SETTINGS,
    shell:
        "cpulab model weights {params.settings:q}"
