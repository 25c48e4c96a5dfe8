module github.com/stdioguard/stdioguard

go 1.25.0

require (
	github.com/goccy/go-json v0.12.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.47.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
