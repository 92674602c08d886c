// Command provider is a Terraform provider that knows a schema and nothing else.
// It can validate, plan, and forget; whatever would touch the world is missing.
//
// It serves the schema of one of the providers in the file that the environment
// variable TF_PROVIDER_SCHEMAS names, which is what `tofu providers schema -json`
// prints. Which one, its own file name says: terraform-provider-NAME_vVERSION.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func main() {
	name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(os.Args[0]), "terraform-provider-"), "_")
	address, schemas, err := load(os.Getenv("TF_PROVIDER_SCHEMAS"), name)
	if err != nil {
		log.Fatalf("schema of provider %q: %v", name, err)
	}
	if err := tf6server.Serve(address, func() tfprotov6.ProviderServer { return &server{schemas: schemas} }); err != nil {
		log.Fatal(err)
	}
}

// load reads the schemas of the provider whose address ends in name.
func load(file, name string) (address string, _ providerSchemas, _ error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", providerSchemas{}, fmt.Errorf("TF_PROVIDER_SCHEMAS: %w", err)
	}
	var all struct {
		Providers map[string]providerSchemas `json:"provider_schemas"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return "", providerSchemas{}, fmt.Errorf("%s: %w", file, err)
	}
	for address, schemas := range all.Providers {
		if path.Base(address) == name {
			return address, schemas, nil
		}
	}
	return "", providerSchemas{}, fmt.Errorf("%s has none", file)
}

// A server answers all that is asked before something is created or changed. The
// methods of the embedded interface are nil: to call one is a crash.
type server struct {
	tfprotov6.ProviderServer
	schemas providerSchemas
}

func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	resp := &tfprotov6.GetMetadataResponse{}
	for name := range s.schemas.Resources {
		resp.Resources = append(resp.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for name := range s.schemas.DataSources {
		resp.DataSources = append(resp.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	return resp, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	resp := &tfprotov6.GetProviderSchemaResponse{
		Provider:          s.schemas.Provider.proto(),
		ResourceSchemas:   map[string]*tfprotov6.Schema{},
		DataSourceSchemas: map[string]*tfprotov6.Schema{},
	}
	for name, schema := range s.schemas.Resources {
		resp.ResourceSchemas[name] = schema.proto()
	}
	for name, schema := range s.schemas.DataSources {
		resp.DataSourceSchemas[name] = schema.proto()
	}
	return resp, nil
}

func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) ValidateProviderConfig(context.Context, *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{}, nil
}

func (s *server) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s *server) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *server) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

// UpgradeResourceState is called even for a state of the current version.
func (s *server) UpgradeResourceState(_ context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	kind := s.schemas.Resources[req.TypeName].proto().ValueType()
	value, err := req.RawState.Unmarshal(kind)
	if err != nil {
		return nil, fmt.Errorf("read the state of a %s: %w", req.TypeName, err)
	}
	state, err := tfprotov6.NewDynamicValue(kind, value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

// ReadDataSource answers with the question, and reads nothing.
func (s *server) ReadDataSource(_ context.Context, req *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	return &tfprotov6.ReadDataSourceResponse{State: req.Config}, nil
}

// PlanResourceChange plans what is configured. Computed attributes are known
// after apply.
func (s *server) PlanResourceChange(_ context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	schema := s.schemas.Resources[req.TypeName].proto()
	kind := schema.ValueType()
	proposed, err := req.ProposedNewState.Unmarshal(kind)
	if err != nil || proposed.IsNull() {
		return &tfprotov6.PlanResourceChangeResponse{PlannedState: req.ProposedNewState}, err
	}
	attributes := map[string]tftypes.Value{}
	if err := proposed.As(&attributes); err != nil {
		return nil, err
	}
	for _, a := range schema.Block.Attributes {
		if a.Computed && attributes[a.Name].IsNull() {
			attributes[a.Name] = tftypes.NewValue(a.ValueType(), tftypes.UnknownValue)
		}
	}
	state, err := tfprotov6.NewDynamicValue(kind, tftypes.NewValue(kind, attributes))
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: &state}, err
}

// ApplyResourceChange destroys what does not exist, which is easy.
func (s *server) ApplyResourceChange(_ context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	planned, err := req.PlannedState.Unmarshal(s.schemas.Resources[req.TypeName].proto().ValueType())
	if err == nil && !planned.IsNull() {
		err = fmt.Errorf("a provider that knows schemas only cannot make a %s", req.TypeName)
	}
	return &tfprotov6.ApplyResourceChangeResponse{NewState: req.PlannedState}, err
}
