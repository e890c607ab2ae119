# Waybill as one static program in an image of a few files. Build with: docker build -t waybill .
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /waybill ./app

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /waybill /waybill
USER nonroot
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s CMD ["/waybill", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/waybill"]
CMD ["serve"]
